import assert from 'node:assert/strict';
import { chmod, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { delimiter, join, relative } from 'node:path';
import { test } from 'node:test';
import { isByName, locate, NotLocated } from '../../dist/guard.js';

async function placesOf(t) {
  const root = await mkdtemp(join(tmpdir(), 'turnguard-'));
  t.after(() => rm(root, { recursive: true }));
  const program = async (...parts) => {
    const path = join(root, ...parts);
    await mkdir(join(path, '..'), { recursive: true });
    await writeFile(path, '#!/bin/sh\n');
    await chmod(path, 0o755);
    return path;
  };
  const folder = join(root, 'workspace');
  await mkdir(folder);
  return { root, folder, program, places: { named: '', folders: [folder], isTrusted: true, pathVariable: '' } };
}

test('the setting goes before the interpreter, and that before PATH', async (t) => {
  const { root, program, places } = await placesOf(t);
  const named = await program('named', 'guard-it');
  const beside = await program('env', 'bin', 'turnguard');
  const onPath = await program('path', 'turnguard');
  const all = {
    ...places,
    named,
    interpreter: join(root, 'env/bin/python'),
    pathVariable: join(root, 'path'),
  };
  assert.equal(await locate(all), named);
  assert.equal(await locate({ ...all, named: '' }), beside);
  assert.equal(await locate({ ...all, named: '', interpreter: join(root, 'other/bin/python') }), onPath);
  assert.equal(await locate({ ...all, named: '', interpreter: undefined }), onPath);
});

test('a setting that names nothing is an error, and no search', async (t) => {
  const { root, program, places } = await placesOf(t);
  await program('path', 'turnguard');
  await assert.rejects(locate({ ...places, named: '/no/such', pathVariable: join(root, 'path') }), {
    why: 'noProgram',
    program: '/no/such',
    message: '/no/such is not a program',
  });
});

test('a file that cannot be run is none', async (t) => {
  const { root, program, places } = await placesOf(t);
  await chmod(await program('first', 'turnguard'), 0o644);
  await mkdir(join(root, 'second', 'turnguard'), { recursive: true });
  const third = await program('third', 'turnguard');
  const pathVariable = ['first', 'second', 'third'].map((name) => join(root, name)).join(delimiter);
  assert.equal(await locate({ ...places, pathVariable }), third);
});

test('nothing anywhere is told as that', async (t) => {
  const { places } = await placesOf(t);
  await assert.rejects(locate(places), (error) => error instanceof NotLocated && error.why === 'nowhere');
});

test('in an untrusted workspace nothing that it contains is started, however it comes to be named', async (t) => {
  const { root, folder, program, places } = await placesOf(t);
  const inside = await program('workspace', 'bin', 'turnguard');
  const outside = await program('path', 'turnguard');
  const pathVariable = [join(folder, 'bin'), join(root, 'path')].join(delimiter);
  const untrusted = { ...places, isTrusted: false, pathVariable, interpreter: join(folder, 'bin', 'python') };
  assert.equal(await locate({ ...untrusted, isTrusted: true }), inside);
  assert.equal(await locate(untrusted), outside);
  for (const named of [inside, '${workspaceFolder}/bin/turnguard', 'bin/turnguard'])
    await assert.rejects(locate({ ...untrusted, named }), /not trusted/);
  const elsewhere = await program('env', 'turnguard');
  assert.equal(
    await locate({ ...untrusted, interpreter: join(root, 'env', 'python') }),
    outside,
    'nor an interpreter asked for',
  );
  assert.equal(await locate({ ...untrusted, named: elsewhere }), elsewhere, 'the own setting of the person counts');
});

test('in an untrusted workspace links hide nothing', async (t) => {
  const { root, folder, program, places } = await placesOf(t);
  const inside = await program('workspace', 'bin', 'turnguard');
  const outside = await program('path', 'turnguard');
  const linkTo = async (target, name) => {
    await mkdir(join(root, name, '..'), { recursive: true });
    await symlink(target, join(root, name));
    return join(root, name);
  };
  const opened = await linkTo(folder, 'opened');
  const entry = await linkTo(join(folder, 'bin'), 'entry');
  const linked = await linkTo(inside, 'linked/turnguard');
  await linkTo(outside, 'workspace/out/turnguard');
  const through = await linkTo(join(folder, 'out'), 'through');
  const untrusted = { ...places, isTrusted: false };
  for (const folders of [[folder], [opened]]) {
    for (const directory of [join(folder, 'bin'), join(opened, 'bin'), entry, join(linked, '..'), through]) {
      const pathVariable = [directory, join(root, 'path')].join(delimiter);
      assert.equal(await locate({ ...untrusted, folders, pathVariable }), outside, `${directory} of ${folders}`);
      const named = join(directory, 'turnguard');
      await assert.rejects(locate({ ...untrusted, folders, named }), /not trusted/);
    }
  }
  const own = await linkTo(join(root, 'path'), 'own');
  assert.equal(await locate({ ...untrusted, pathVariable: own }), join(own, 'turnguard'), 'a link elsewhere is fine');
});

test('a relative entry of PATH is no place', async (t) => {
  const { program, places } = await placesOf(t);
  const pathVariable = relative(process.cwd(), join(await program('path', 'turnguard'), '..'));
  await assert.rejects(locate({ ...places, pathVariable }), { why: 'nowhere' });
});

test('whether PATH gives the program that was found', async (t) => {
  const { root, program } = await placesOf(t);
  const first = await program('first', 'turnguard');
  const second = await program('second', 'turnguard');
  await mkdir(join(root, 'links'));
  await symlink(second, join(root, 'links', 'turnguard'));
  const path = (...names) => ['', ...names].map((name) => (name === '' ? name : join(root, name))).join(delimiter);
  assert.equal(await isByName(first, path('first', 'second')), true);
  assert.equal(await isByName(second, path('first', 'second')), false);
  assert.equal(await isByName(second, path('nowhere', 'links')), true);
  assert.equal(await isByName(first, ''), false);
});

test('~ and ${workspaceFolder} stand for what they do elsewhere', async (t) => {
  const { program, places } = await placesOf(t);
  const inside = await program('workspace', 'guard');
  assert.equal(await locate({ ...places, named: '${workspaceFolder}/guard' }), inside);
  assert.equal(await locate({ ...places, named: 'guard' }), inside);
  await assert.rejects(locate({ ...places, named: '~/no-such-turnguard' }), (error) =>
    error.message.includes(join(homedir(), 'no-such-turnguard')),
  );
});
