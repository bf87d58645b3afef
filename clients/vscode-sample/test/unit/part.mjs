// A part of the extension, in a VS Code that is made up.
import { mkdtemp, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const home = fileURLToPath(new URL('../../', import.meta.url));

/** What `src/NAME.ts` exports, and `fake`, which says what VS Code is like. */
export async function part(name) {
  const directory = await mkdtemp(join(tmpdir(), 'turnguard-'));
  const outfile = join(directory, 'part.cjs');
  try {
    await build({
      stdin: { contents: `export * from './src/${name}'; export { fake } from 'vscode';`, resolveDir: home },
      alias: { vscode: './test/unit/vscode.mjs' },
      absWorkingDir: home,
      outfile,
      bundle: true,
      platform: 'node',
    });
    return createRequire(import.meta.url)(outfile);
  } finally {
    await rm(directory, { recursive: true });
  }
}
