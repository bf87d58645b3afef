// Which sessions are shown, with a VS Code that is made up.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { Controls } from '../../dist/guard.js';
import { part } from './part.mjs';

let Sessions;
before(async () => ({ Sessions } = await part('sessions')));

test('a restart forgets the sessions, but not one that waits for an answer', () => {
  const controls = new Controls();
  const sessions = new Sessions(controls);
  const finding = { action: 'halt' };
  for (const id of ['rests', 'runs', 'waits']) {
    const session = { id };
    sessions.add(session);
    if (id !== 'rests') controls.begin(session);
    sessions.update({ sessionId: id, turnId: '1', state: id === 'waits' ? 'halted' : 'running' });
    sessions.found({ sessionId: id, turnId: '1', verdict: { findings: [finding] } });
  }
  const halt = controls.halt({ id: 'waits' }, {});
  sessions.forget();
  const [left, ...others] = sessions.list();
  assert.equal(left.sessionId, 'waits');
  assert.deepEqual(others, []);
  assert.equal(sessions.phase(left), 'halted');
  assert.equal(sessions.finding(left), finding);
  halt.answer({ action: 'stop' });
  sessions.forget();
  assert.deepEqual(sessions.list(), []);
});

test('a turn that goes on while the guard does not answer is said to, and is no stopped one', () => {
  const controls = new Controls();
  const sessions = new Sessions(controls);
  const session = { id: 's' };
  sessions.add(session);
  controls.begin(session);
  sessions.update({ sessionId: 's', turnId: '1', state: 'halted' });
  const phase = () => sessions.phase(sessions.status('s'));
  const halt = controls.halt(session, {});
  assert.equal(phase(), 'halted');
  halt.answer({ action: 'continueOnce' });
  assert.equal(phase(), 'waiting');
  sessions.guarded(false);
  assert.equal(phase(), 'unguarded');
  sessions.guarded(true);
  controls.stop('s');
  assert.equal(phase(), 'stopped');
});
