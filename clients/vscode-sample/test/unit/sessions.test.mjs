// Which sessions are shown, with a VS Code that is made up.
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { Controls } from '../../dist/guard.js';

const home = fileURLToPath(new URL('../../', import.meta.url));
let root;
let Sessions;

before(async () => {
  root = await mkdtemp(join(tmpdir(), 'turnguard-'));
  await build({
    entryPoints: ['src/sessions.ts'],
    alias: { vscode: './test/unit/vscode.mjs' },
    absWorkingDir: home,
    outfile: join(root, 'sessions.cjs'),
    bundle: true,
    platform: 'node',
  });
  ({ Sessions } = createRequire(import.meta.url)(join(root, 'sessions.cjs')));
});
after(() => rm(root, { recursive: true }));

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
