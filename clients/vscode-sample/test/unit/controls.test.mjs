import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Controls } from '../../dist/guard.js';

const verdict = { action: 'halt' };

function running() {
  const controls = new Controls();
  const overrides = [];
  const session = { id: 's', override: async (...args) => overrides.push(args) };
  const abort = controls.begin(session);
  return { controls, session, abort, overrides };
}

test('the first answer to a halt counts, wherever it comes from', async () => {
  const { controls, session } = running();
  const halt = controls.halt(session, verdict);
  assert.deepEqual(controls.halted(), ['s']);
  controls.continueOnce('s');
  halt.answer({ action: 'stop' });
  assert.deepEqual(await halt.decided, { action: 'continueOnce' });
  assert.deepEqual(controls.halted(), []);
});

test('a notification that was left open does not answer the next halt', async () => {
  const { controls, session } = running();
  const first = controls.halt(session, verdict);
  controls.continueOnce('s');
  const second = controls.halt(session, verdict);
  assert.ok(controls.isHalted('s', second.id) && !controls.isHalted('s', first.id));
  first.answer({ action: 'stop' });
  assert.deepEqual(controls.halted(), ['s']);
  await controls.raiseCap('s', 5);
  assert.deepEqual(await second.decided, { action: 'raiseCap', calls: 5 });
});

test('stop ends a halt, and else the turn', async () => {
  const { controls, session, abort } = running();
  const halt = controls.halt(session, verdict);
  controls.stop('s');
  assert.deepEqual(await halt.decided, { action: 'stop' });
  assert.equal(abort.signal.aborted, false);
  controls.stop('s');
  assert.equal(abort.signal.aborted, true);
});

test('a turn goes on from its answer to its end, unless the answer was stop', async () => {
  const { controls, session, abort } = running();
  assert.ok(controls.goesOn('s'));
  const halt = controls.halt(session, verdict);
  assert.ok(!controls.goesOn('s'));
  halt.answer({ action: 'continueOnce' });
  assert.ok(controls.goesOn('s'));
  assert.equal(controls.stop('s'), true);
  assert.ok(!controls.goesOn('s') && abort.signal.aborted);
  controls.end(session);
  assert.ok(!controls.goesOn('s'));
  assert.equal(controls.stop('s'), false);
  const next = running();
  next.controls.halt(next.session, verdict);
  next.controls.stop('s');
  assert.ok(!next.controls.goesOn('s'));
});

test('a turn that is cancelled while it waits for an answer is stopped', async () => {
  const { controls, session, abort } = running();
  const halt = controls.halt(session, verdict);
  abort.abort();
  assert.deepEqual(await halt.decided, { action: 'stop' });
});

test('the cap of a turn that is not halted can be raised too; of one that is over, nothing can', async () => {
  const { controls, session, overrides } = running();
  await controls.raiseCap('s');
  assert.deepEqual(overrides, [['raiseCap', undefined]]);
  controls.end(session);
  await controls.raiseCap('s');
  controls.stop('s');
  assert.equal(overrides.length, 1);
  assert.equal(controls.isRunning('s'), false);
});
