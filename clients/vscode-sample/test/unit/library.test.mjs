// src/guard as others take it: alone, with the compiler options that they have.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';

const home = fileURLToPath(new URL('../../', import.meta.url));
const run = promisify(execFile);

const STRICTEST = {
  target: 'ES2023',
  types: ['node'],
  strict: true,
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
  noPropertyAccessFromIndexSignature: true,
  noImplicitOverride: true,
  noImplicitReturns: true,
  isolatedModules: true,
  skipLibCheck: true,
  rootDir: 'guard',
  outDir: 'out',
};

/** A package that has nothing but the library, and what it depends on. Gives its directory, compiled. */
async function compiled(t, type, options) {
  const directory = await mkdtemp(join(tmpdir(), 'turnguard-'));
  t.after(() => rm(directory, { recursive: true }));
  await cp(join(home, 'src/guard'), join(directory, 'guard'), { recursive: true });
  await mkdir(join(directory, 'node_modules/@types'), { recursive: true });
  for (const name of ['vscode-jsonrpc', '@types/node'])
    await symlink(join(home, 'node_modules', name), join(directory, 'node_modules', name));
  await writeFile(join(directory, 'package.json'), JSON.stringify({ type }));
  const configuration = { compilerOptions: { ...STRICTEST, ...options }, include: ['guard'] };
  await writeFile(join(directory, 'tsconfig.json'), JSON.stringify(configuration));
  const compiler = join(home, 'node_modules/typescript/bin/tsc');
  await run(process.execPath, [compiler, '--project', directory]).catch(({ stdout }) => assert.fail(stdout));
  return directory;
}

const modules = { verbatimModuleSyntax: true };

test('for a bundler', async (t) => {
  await compiled(t, 'module', { ...modules, module: 'ESNext', moduleResolution: 'bundler' });
});

test('for Node, as modules, which run as they are', async (t) => {
  const directory = await compiled(t, 'module', { ...modules, module: 'NodeNext', moduleResolution: 'nodenext' });
  const { Guard } = await import(pathToFileURL(join(directory, 'out/index.js')));
  assert.equal(new Guard({}).state.kind, 'stopped');
});

test('for Node, as CommonJS', async (t) => {
  const directory = await compiled(t, 'commonjs', { module: 'NodeNext', moduleResolution: 'nodenext' });
  const { stdout } = await run(process.execPath, ['-p', `typeof require('./out/index.js').Guard`], { cwd: directory });
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
