// Two bundles: the extension, and the client library alone, which has no `vscode` in it and is tested in plain Node.
import { build, context } from 'esbuild';

const production = process.argv.includes('--production');
const options = {
  entryPoints: { extension: 'src/extension.ts', ...(production ? {} : { guard: 'src/guard/index.ts' }) },
  outdir: 'dist',
  bundle: true,
  platform: 'node',
  target: 'node20',
  format: 'cjs',
  external: ['vscode'],
  minify: production,
  sourcemap: production ? false : 'linked',
  logLevel: 'warning',
};

if (process.argv.includes('--watch')) await (await context(options)).watch();
else await build(options);
