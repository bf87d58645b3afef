// The hooks of VS Code's own agent: which turnguard they run, and what is said of them, with a VS Code that is made up.
import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import { PROGRAM } from './daemon.mjs';
import { part } from './part.mjs';

const { PATH } = process.env;
let parts;
let root;
let folder;
let file;
/** What stands in the output. */
let lines;
/** What was asked. */
let asked;

before(async () => {
  parts = await part('hooks');
  root = await mkdtemp(join(tmpdir(), 'turnguard-'));
  await mkdir(join(root, 'bin'));
  await symlink(PROGRAM, join(root, 'bin/turnguard'));
});
after(async () => {
  process.env.PATH = PATH;
  await rm(root, { recursive: true });
});
beforeEach(async () => {
  folder = await mkdtemp(join(root, 'folder-'));
  file = join(folder, '.github/hooks/turnguard.json');
  lines = [];
  asked = [];
  parts.fake.shown.length = 0;
  Object.assign(parts.fake, { path: { globalValue: PROGRAM }, pressed: undefined });
  process.env.PATH = `${join(root, 'bin')}:/usr/bin:/bin`;
});

const note = (line) => lines.push(line);
const output = { info: note, error: note, show: () => note('shown') };

/** Writes them, as somebody who agrees does. */
function write() {
  const ask = async (question, detail) => asked.push(`${question} ${detail}`) > 0;
  return parts.writeHooks({ name: 'folder', uri: { fsPath: folder } }, ask, output);
}

/** A program that is named in the settings, and behaves like that. */
async function programOf(script) {
  const program = join(folder, 'program');
  await writeFile(program, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  parts.fake.path = { globalValue: program };
}

test('the turnguard that PATH gives is run by its name, also when it was found by its path', async () => {
  const { told, careful } = await write();
  assert.equal(told, 'Written to .github/hooks/turnguard.json.');
  assert.equal(careful, '');
  assert.match(await readFile(file, 'utf8'), /"turnguard hook vscode"/);
  assert.match(parts.fake.document, /"turnguard hook vscode"/);
  assert.match(asked[0], /It belongs into \.github\/hooks\/turnguard\.json\. What is in that file already stays\.$/);
});

test('one that PATH does not give is run by its path, and the question says what that means', async () => {
  process.env.PATH = '/usr/bin:/bin';
  const { told, careful } = await write();
  assert.equal(told, 'Written to .github/hooks/turnguard.json.');
  assert.equal(careful, '');
  const [command] = /"\/\S+\/turnguard hook vscode"/.exec(await readFile(file, 'utf8'));
  assert.ok(parts.fake.document.includes(command));
  assert.match(asked[0], /stays\. They hold the path of the turnguard of this machine, so they work on no other\.$/);
});

test('what turnguard warns of is told whole, with a button: VS Code cuts off one line without', async () => {
  parts.fake.folders = [folder];
  parts.fake.pressed = 'Write';
  await programOf(
    `echo 'Written to ${folder}/.github/hooks/turnguard.json. As it was: x.'; echo more
     echo 'Careful: no turnguard is on this PATH. Install it.' >&2; echo 'It belongs into x; --write puts it there.' >&2`,
  );
  await parts.installHook(output);
  assert.match(parts.fake.shown[0], /^Guard VS Code's own agent in folder/);
  assert.equal(
    parts.fake.shown[1],
    'Written to .github/hooks/turnguard.json. As it was: x. Careful: no turnguard is on this PATH. Install it.',
  );
  assert.deepEqual(parts.fake.buttons, ['Show Output']);
});

test('of many lines of a program that fails the last is told, and all are in the output', async () => {
  await programOf(
    `printf 'Traceback (most recent call last):\\n  File "x.py"\\nImportError: no msgspec\\n\\n' >&2; exit 1`,
  );
  await assert.rejects(write(), { message: 'ImportError: no msgspec' });
  assert.deepEqual(lines.slice(1), ['Traceback (most recent call last):', 'File "x.py"', 'ImportError: no msgspec']);
  await programOf('exit 3');
  await assert.rejects(write(), { message: 'It ended with code 3.' });
});

test('a program that cannot be started is told as that', async () => {
  await writeFile(join(folder, 'program'), '#!/no/such/interpreter\n', { mode: 0o755 });
  parts.fake.path = { globalValue: join(folder, 'program') };
  await assert.rejects(write(), { message: /program cannot be started: what its first line names is gone\.$/ });
});

test('what is not understood is not changed, and the reason is told', async () => {
  await mkdir(join(file, '..'), { recursive: true });
  await writeFile(file, '{ "hooks": ');
  await assert.rejects(write(), /turnguard\.json is not plain JSON, so it is not changed/);
  assert.equal(await readFile(file, 'utf8'), '{ "hooks": ');
});
