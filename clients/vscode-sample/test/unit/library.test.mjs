// src/guard as others take it: alone, with the compiler options that they have.
import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { compile, home, packageOf, run } from './package.mjs';

async function compiled(t, type, options) {
  const directory = await packageOf(t, type);
  await compile(directory, options);
  return directory;
}

const modules = { verbatimModuleSyntax: true };

test('for a bundler', async (t) => {
  await compiled(t, 'module', { ...modules, module: 'ESNext', moduleResolution: 'bundler' });
});

test('for Node, as modules, which run as they are', async (t) => {
  const directory = await compiled(t, 'module', { ...modules, module: 'NodeNext', moduleResolution: 'nodenext' });
  const { Guard } = await import(pathToFileURL(join(directory, 'out/guard/index.js')));
  assert.equal(new Guard({}).state.kind, 'stopped');
});

test('for Node, as CommonJS', async (t) => {
  const directory = await compiled(t, 'commonjs', { module: 'NodeNext', moduleResolution: 'nodenext' });
  const { stdout } = await run(process.execPath, ['-p', `typeof require('./out/guard/index.js').Guard`], {
    cwd: directory,
  });
  assert.equal(stdout.trim(), 'function');
});

test('no word in it is of one editor or one extension', async () => {
  for (const name of await readdir(join(home, 'src/guard'))) {
    if (name === 'protocol.ts' || name === 'settingNames.ts') continue; // Those of the daemon.
    const text = await readFile(join(home, 'src/guard', name), 'utf8');
    const said = text.replaceAll(/^\s*(\/\*\*|\*|\/\/).*$/gm, '');
    assert.doesNotMatch(said, /turnguard\.path|this extension|pip install|from 'vscode'/i, name);
  }
});
