import assert from 'node:assert/strict';
import { test } from 'node:test';
import { calls, evidence, phaseOf, sessionInWords, shown, statusBar, Trail } from '../../dist/guard.js';

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
  const text = (state, unguarded, status, phase = status?.state, found = undefined) =>
    Object.values(statusBar(state, unguarded, status && { status, phase, finding: found })).join(' | ');
  assert.equal(text(ready, undefined, undefined), '$(shield) turnguard: ready | turnguard is ready | none');
  assert.equal(text(ready, undefined, status()), '$(shield) 4/5 | 4/5 tool calls | none');
  assert.match(
    text(ready, undefined, status(), 'running', { ...finding, action: 'warn' }),
    /4\/5 repeats \|.*\| warning$/,
  );
  assert.match(text(ready, undefined, status({ state: 'halted' })), /4\/5 halted \|.*\| error$/);
  assert.match(text(ready, undefined, status({ state: 'halted' }), 'stopped'), /4\/5 stopped \|.*\| none$/);
  assert.match(text(ready, 'it does not answer', status()), /no answer \|.*it does not answer \| warning$/);
  assert.match(text({ kind: 'failed', why: 'x' }, undefined, undefined), /not running \|.*x \| error$/);
  assert.match(text({ kind: 'waiting', why: 'x', pauseMs: 1 }, undefined, undefined), /restarting \|.*x \| warning$/);
  assert.match(text({ kind: 'starting' }, undefined, undefined), /starting \|.*\| none$/);
});

test('a halt that was answered is no longer one that waits, whatever the daemon says', () => {
  assert.equal(phaseOf(status({ state: 'halted' }), true), 'halted');
  assert.equal(phaseOf(status({ state: 'halted' }), false), 'stopped');
  assert.equal(phaseOf(status(), false), 'running');
});

test('a session in words: state, turn, calls, the repeated call', () => {
  assert.equal(sessionInWords(status(), 'running'), 'running · turn t1 · 4/5 calls · read_file ×2');
  const first = status({ turnId: undefined, totals: { toolCalls: 0, steps: 0, distinctKeys: 0, maxKeyRepeat: 0 } });
  assert.equal(sessionInWords(first, 'idle'), 'idle · 0/5 calls');
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
  assert.deepEqual(lines, [
    'Halt by the turn guard',
    'Turn tool call cap (explicit cap)',
    '6 counted, 5 allowed',
    'Most repeated: read_file, 3 times',
    'At calls 1, 3, 5',
    'Setting: model.maxToolCallsPerTurn',
  ]);
  assert.equal(trail.mostRepeated('other'), undefined);
  assert.ok(!JSON.stringify([...trail.calls]).includes('secret'));
  trail.begin();
  assert.equal(trail.mostRepeated(), undefined);
});

test('names that a model makes up cannot break out of their line', () => {
  assert.equal(shown('rm\u202e\u0007\n-rf'), 'rm-rf');
  assert.equal(shown('x'.repeat(500)).length, 80);
});
