// When VS Code's part starts which daemon, with a VS Code that is made up.
import assert from 'node:assert/strict';
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import { PROGRAM, until } from './daemon.mjs';
import { part } from './part.mjs';

let root;
let Daemon;
let fake;

before(async () => {
  root = await mkdtemp(join(tmpdir(), 'turnguard-'));
  ({ Daemon, fake } = await part('daemon'));
  process.env.PATH = `${await programIn('path')}:/usr/bin:/bin`;
});
after(() => rm(root, { recursive: true }));
beforeEach(() => Object.assign(fake, { isTrusted: true, folders: [], path: {}, interpreter: undefined }));

/** A directory with a turnguard in it. */
async function programIn(...parts) {
  const directory = join(root, ...parts);
  await mkdir(directory, { recursive: true });
  await writeFile(join(directory, 'turnguard'), `#!/bin/sh\nexec '${PROGRAM}' "$@"\n`);
  await chmod(join(directory, 'turnguard'), 0o755);
  return directory;
}

/** A daemon that is watched: the programs that were started, in order. */
function daemonOf(t) {
  const started = [];
  const info = (line) => {
    if (line.startsWith('starting: '))
      started.push(line.slice('starting: '.length + root.length + 1, -'/turnguard serve'.length));
  };
  const daemon = new Daemon({ info, warn: info }, { state: () => undefined });
  t.after(async () => {
    daemon.dispose();
    await daemon.guard.stop();
  });
  const ready = (count) =>
    until(() => started.length === count && daemon.guard.state.kind === 'ready', `start ${count}`);
  return { daemon, started, ready };
}

test('the interpreter that is selected has the guard; when another is selected, that one has it', async (t) => {
  fake.interpreter = join(await programIn('env-a'), 'python');
  const { started, ready } = daemonOf(t);
  await ready(1);
  fake.interpreter = join(await programIn('env-b'), 'python');
  fake.fire('interpreter');
  await ready(2);
  assert.deepEqual(started, ['env-a', 'env-b']);
});

test('an interpreter without a guard changes nothing: turns are not forgotten for it', async (t) => {
  const { daemon, started, ready } = daemonOf(t);
  await ready(1);
  const { pid } = daemon.guard.connection;
  fake.interpreter = join(root, 'env-without', 'python');
  fake.fire('interpreter');
  assert.deepEqual(await until(() => daemon.guard.ask('turnguard/listSessions', {}), 'an answer'), { sessions: [] });
  assert.equal(daemon.guard.connection.pid, pid);
  assert.deepEqual(started, ['path']);
});

test('another turnguard.path starts another daemon', async (t) => {
  const { started, ready } = daemonOf(t);
  await ready(1);
  fake.path = { globalValue: join(await programIn('named'), 'turnguard') };
  fake.fire('configuration', { affectsConfiguration: (name) => name === 'turnguard.path' || name === 'turnguard' });
  await ready(2);
  assert.deepEqual(started, ['path', 'named']);
});

test('the path of a workspace counts when the workspace is trusted, and not before', async (t) => {
  fake.isTrusted = false;
  fake.folders = [join(root, 'workspace')];
  fake.path = { workspaceValue: join(await programIn('anywhere'), 'turnguard') };
  fake.interpreter = join(await programIn('workspace', 'bin'), 'python');
  const { started, ready } = daemonOf(t);
  await ready(1);
  fake.isTrusted = true;
  fake.fire('trust');
  await ready(2);
  assert.deepEqual(started, ['path', 'anywhere']);
});
