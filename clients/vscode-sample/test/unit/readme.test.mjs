// What the README gives to be copied does guard.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { test } from 'node:test';
import * as library from '../../dist/guard.js';
import { agentOf, call, PROGRAM } from './daemon.mjs';

test('the loop of the README is guarded from its first turn', async () => {
  const readme = await readFile(new URL('../../README.md', import.meta.url), 'utf8');
  const [, snippet] = /^```ts\n(.*?)^```$/ms.exec(readme);
  const [line, ...rest] = snippet.split('\n');
  const [, names] = /^import (\{.*\}) from '\.\/guard\/index\.js';$/.exec(line);
  const cap = Array.from({ length: 101 }, (_, n) => call(`${n}`, 'read_file', { path: 'same' }));
  const { agent, seen } = agentOf([{ calls: cap }]);
  const warned = [];
  const { constructor: AsyncFunction } = Object.getPrototypeOf(async () => undefined);
  const given = {
    library,
    ...agent,
    signal: new AbortController().signal,
    console: { warn: (why) => warned.push(why) },
  };
  const run = new AsyncFunction(
    ...Object.keys(given),
    `const ${names} = library;\n${rest.join('\n')}\nreturn { outcome, guard };`,
  );
  const path = process.env.PATH;
  process.env.PATH = `${dirname(PROGRAM)}:${path}`;
  try {
    const { outcome, guard } = await run(...Object.values(given));
    assert.equal(outcome, 'stopped');
    assert.equal(guard.state.kind, 'stopped');
  } finally {
    process.env.PATH = path;
  }
  assert.deepEqual(warned, []);
  assert.deepEqual(seen.invoked, []);
});
