import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  calls,
  evidence,
  label,
  phaseOf,
  propertyOf,
  sessionInWords,
  shown,
  statusBar,
  Trail,
} from '../../dist/guard.js';

const ready = { kind: 'ready', version: '1' };
const status = (changes = {}) => ({
  sessionId: 's',
  state: 'running',
  turnId: 't1',
  totals: { toolCalls: 4, steps: 2, distinctKeys: 3, maxKeyRepeat: 2, maxKeyTool: 'read_file' },
  cap: { value: 5, explicit: true },
  overrides: [],
  ...changes,
});
const finding = {
  guard: 'turn',
  action: 'halt',
  loopType: 'turn_tool_call_cap',
  reason: 'explicit_cap',
  count: 6,
  threshold: 5,
  setting: 'model.maxToolCallsPerTurn',
};

test('calls and cap: set, adaptive, none', () => {
  assert.equal(calls(status()), '4/5');
  assert.equal(calls(status({ cap: { value: 100, explicit: false } })), '4/~100');
  assert.equal(calls(status({ cap: { value: null, explicit: true } })), '4');
});

test('the status bar says what matters most, in words and not by colour alone', () => {
  const text = (state, unguarded, status, phase = status?.state) =>
    Object.values(statusBar(state, unguarded, status && { status, phase })).join(' | ');
  assert.equal(text(ready, undefined, undefined), '$(shield) turnguard: ready | turnguard is ready | none');
  assert.equal(text(ready, undefined, status()), '$(shield) 4/5 | 4/5 tool calls | none');
  assert.match(text(ready, undefined, status(), 'repeats'), /4\/5 repeats \|.*\| warning$/);
  assert.match(text(ready, undefined, status({ state: 'halted' })), /4\/5 halted \|.*\| error$/);
  assert.match(text(ready, undefined, status({ state: 'halted' }), 'stopped'), /4\/5 stopped \|.*\| none$/);
  assert.match(text(ready, undefined, status({ state: 'halted' }), 'waiting'), /4\/5 waiting \|.*\| none$/);
  assert.match(text(ready, 'it does not answer', status()), /not guarding \|.*it does not answer \| warning$/);
  assert.match(text({ kind: 'failed', why: 'x' }, undefined, undefined), /not running \|.*x \| error$/);
  assert.match(text({ kind: 'waiting', why: 'x', pauseMs: 1 }, undefined, undefined), /restarting \|.*x \| warning$/);
  assert.match(
    statusBar(ready, undefined, { status: status(), phase: 'halted' }, 3).text,
    /^\$\(stop-circle\) 3 halted$/,
  );
  assert.match(text({ kind: 'starting' }, undefined, undefined), /starting \|.*\| none$/);
});

test('a halt that was answered is no longer one that waits, whatever the daemon says', () => {
  const over = { isHalted: false, goesOn: false, isGuarded: true };
  const runs = { ...over, goesOn: true };
  assert.equal(phaseOf(status({ state: 'halted' }), { ...over, isHalted: true }, finding), 'halted');
  assert.equal(phaseOf(status({ state: 'halted' }), over, finding), 'stopped');
  assert.equal(phaseOf(status(), runs, undefined), 'running');
  assert.equal(phaseOf(status(), runs, finding), 'repeats');
  assert.equal(phaseOf(status({ state: 'halted' }), runs, finding), 'waiting', 'it goes on, says the person');
  for (const state of ['halted', 'running', 'idle'])
    assert.equal(phaseOf(status({ state }), { ...runs, isGuarded: false }, finding), 'unguarded');
  assert.equal(phaseOf(status({ state: 'halted' }), { ...over, isGuarded: false }, finding), 'stopped');
});

test('a session in words: state, calls, the repeated call, turn', () => {
  assert.equal(sessionInWords(status(), 'running'), 'running · 4/5 calls · 2× read_file · turn t1');
  const first = status({ turnId: undefined, totals: { toolCalls: 0, steps: 0, distinctKeys: 0, maxKeyRepeat: 0 } });
  assert.equal(sessionInWords(first, 'idle'), 'idle · 0/5 calls');
  const one = { ...first, totals: { ...first.totals, toolCalls: 1 }, cap: { value: null, explicit: true } };
  assert.equal(sessionInWords(one, 'idle'), 'idle · 1 call');
});

test('evidence: which call, how often, where; without its arguments', () => {
  const trail = new Trail();
  trail.begin();
  for (let n = 0; n < 3; n += 1)
    trail.add([
      { name: 'read_file', args: n % 2 ? { a: 'secret', b: 1 } : { b: 1, a: 'secret' } },
      { name: 'read_file', args: { n } },
    ]);
  const lines = evidence(finding, trail.mostRepeated());
  assert.deepEqual(
    lines.map(({ label, detail }) => `${label} | ${detail}`),
    [
      '3× read_file | ',
      'At calls | 1, 3, 5',
      '6 tool calls | limit 5',
      'Turn tool call cap | explicit cap',
      'Setting | turnguard.model.maxToolCallsPerTurn',
    ],
  );
  assert.equal(propertyOf(lines.at(-1).setting), 'turnguard.model.maxToolCallsPerTurn');
  const own = evidence(finding, undefined, 'the demo agent').at(-1);
  assert.deepEqual(own, { label: 'Set by the demo agent', detail: 'turnguard.model.maxToolCallsPerTurn' });
  assert.equal(trail.mostRepeated('other'), undefined);
  assert.ok(!JSON.stringify([...trail.calls]).includes('secret'));
  trail.begin();
  assert.equal(trail.mostRepeated(), undefined);
});

test('names that a model makes up cannot break out of their line', () => {
  assert.equal(shown('rm\u202e\u0007\n-rf'), 'rm-rf');
  assert.equal(shown('x'.repeat(500)).length, 80);
  assert.equal(label('nightly-refactoring-of-the-payments'), 'nightly-refactoring-of-…');
});
