// What the README gives to be copied compiles as it stands there, and does guard.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { PROGRAM } from './daemon.mjs';
import { compile, packageOf } from './package.mjs';

/** The same on a machine that is too busy for the patience of everyday use. */
function patient(snippet) {
  return snippet
    .replace('new Guard({', 'new Guard({ patienceMs: 20_000,')
    .replace('guard.start();', 'guard.start();\nawait guard.ready(60_000);');
}

test('the loop of the README compiles under the strictest options, is guarded from its first turn, and ends', async (t) => {
  const readme = await readFile(new URL('../../README.md', import.meta.url), 'utf8');
  const [, snippet] = /^```ts\n(.*?)^```$/ms.exec(readme);
  const directory = await packageOf(t, 'module');
  await writeFile(join(directory, 'example.ts'), snippet);
  await writeFile(join(directory, 'patient.ts'), patient(snippet));
  await compile(directory, { verbatimModuleSyntax: true, module: 'NodeNext', moduleResolution: 'nodenext' });
  const env = { ...process.env, PATH: `${dirname(PROGRAM)}:${process.env.PATH}` };
  const { stdout, stderr } = await promisify(execFile)(process.execPath, ['out/patient.js'], { cwd: directory, env });
  assert.match(stdout, /^Stopped after 6 tool calls: .*\nstopped\n$/);
  assert.equal(stderr, '', 'no call ran without the guard');
});
