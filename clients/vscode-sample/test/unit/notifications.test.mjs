// What is asked about a halt, and what an answer means.
import assert from 'node:assert/strict';
import { before, beforeEach, test } from 'node:test';
import { Controls } from '../../dist/guard.js';
import { part } from './part.mjs';

const totals = { toolCalls: 6, steps: 3, distinctKeys: 4, maxKeyRepeat: 3, maxKeyTool: 'read_file' };
const finding = { guard: 'turn', action: 'halt', loopType: 'turn_tool_call_cap', count: 6, threshold: 5 };
const capped = { action: 'halt', findings: [finding], totals };
const stuck = {
  action: 'halt',
  findings: [{ ...finding, guard: 'progress', loopType: 'no_new_evidence', tool: 'edit' }],
  modelMessage: 'The turn was stopped: "edit" came again. Do something else.',
  totals,
};

let parts;
before(async () => (parts = await part('notifications')));
beforeEach(() => {
  Object.assign(parts.fake, { settings: {}, pressed: undefined });
  parts.fake.shown.length = 0;
});

/** What a halt is answered with when that button is pressed. */
async function answerTo(verdict, pressed) {
  parts.fake.pressed = pressed;
  return new Promise((resolve) => {
    parts.askAboutHalt('demo', { verdict, answer: (decision) => (resolve(decision), true) }, { stop: () => false });
  });
}

test('a halt is one short question; only one of the cap has a cap to be raised', async () => {
  await answerTo(capped);
  assert.deepEqual(parts.fake.shown, [
    'demo was stopped: it came to 6 tool calls and may make 5. Most repeated: "read_file", 3 times. Let it go on?',
  ]);
  assert.deepEqual(parts.fake.buttons, ['Continue Once', 'Raise Cap', 'Stop']);
  await answerTo(stuck);
  assert.equal(parts.fake.shown[1], 'demo was stopped: "edit" came again. Let it go on?');
  assert.deepEqual(parts.fake.buttons, ['Continue Once', 'Stop']);
});

test('each button means what it says, and closing it means stop', async () => {
  assert.deepEqual(await answerTo(capped, 'Continue Once'), { action: 'continueOnce' });
  assert.deepEqual(await answerTo(capped, 'Raise Cap'), { action: 'raiseCap' });
  assert.deepEqual(await answerTo(capped, 'Stop'), { action: 'stop' });
  assert.deepEqual(await answerTo(capped, undefined), { action: 'stop' });
});

test('a notification that is still open: its Stop stops the turn, its other buttons say that they change nothing', async () => {
  const controls = new Controls();
  const session = { id: 'demo', override: async () => undefined };
  const { signal } = controls.begin(session);
  /** A halt that was answered elsewhere before that button was pressed. */
  const late = async (pressed) => {
    const halt = controls.halt(session, capped);
    controls.continueOnce('demo');
    parts.fake.shown.length = 0;
    parts.fake.pressed = pressed;
    parts.askAboutHalt('demo', halt, controls);
    await new Promise(setImmediate);
    return parts.fake.shown.slice(1);
  };
  for (const pressed of ['Continue Once', 'Raise Cap'])
    assert.deepEqual(await late(pressed), ['That was decided already, so nothing was changed.']);
  assert.deepEqual(await late(undefined), []);
  assert.equal(signal.aborted, false);
  assert.deepEqual(await late('Stop'), []);
  assert.equal(signal.aborted, true);
  const halt = controls.halt(session, capped);
  controls.stop('demo');
  controls.end(session);
  parts.askAboutHalt('demo', halt, controls);
  await new Promise(setImmediate);
  assert.equal(parts.fake.shown.at(-1), 'That turn is over already.');
});

test('a warning is told, in short, to who wants warnings', () => {
  const warned = { ...stuck, action: 'warn', findings: [{ ...stuck.findings[0], action: 'warn' }] };
  parts.tellWarning('demo', 'long words', warned);
  assert.deepEqual(parts.fake.shown, []);
  parts.fake.settings = { showNotifications: 'warn' };
  parts.tellWarning('demo', 'long words', warned);
  parts.tellWarning('demo', 'a notice');
  assert.deepEqual(parts.fake.shown, ['demo was warned: "edit" came again.', 'a notice']);
});
