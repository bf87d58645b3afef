// src/guard as others take it: a package that has nothing but the library, and what it depends on.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

export const home = fileURLToPath(new URL('../../', import.meta.url));
export const run = promisify(execFile);

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
  erasableSyntaxOnly: true,
  skipLibCheck: true,
  rootDir: '.',
  outDir: 'out',
};

/** Gives its directory; it is removed after the test. */
export async function packageOf(t, type) {
  const directory = await mkdtemp(join(tmpdir(), 'turnguard-'));
  t.after(() => rm(directory, { recursive: true }));
  await cp(join(home, 'src/guard'), join(directory, 'guard'), { recursive: true });
  await mkdir(join(directory, 'node_modules/@types'), { recursive: true });
  for (const name of ['vscode-jsonrpc', '@types/node'])
    await symlink(join(home, 'node_modules', name), join(directory, 'node_modules', name));
  await writeFile(join(directory, 'package.json'), JSON.stringify({ type }));
  return directory;
}

/** Compiles all that is in it, into `out`. */
export async function compile(directory, options) {
  const configuration = { compilerOptions: { ...STRICTEST, ...options }, include: ['*.ts', 'guard'] };
  await writeFile(join(directory, 'tsconfig.json'), JSON.stringify(configuration));
  const compiler = join(home, 'node_modules/typescript/bin/tsc');
  await run(process.execPath, [compiler, '--project', directory]).catch(({ stdout }) => assert.fail(stdout));
}
