// What the person reads when something is wrong with the guard: once, the same word everywhere, and what to do.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { before, beforeEach, test } from 'node:test';
import { CONDITIONS, NotLocated, statusBar, Unusable } from '../../dist/guard.js';
import { part } from './part.mjs';

const read = (path) => readFile(new URL(`../../${path}`, import.meta.url), 'utf8');
let parts;
before(async () => (parts = await part('trouble')));
beforeEach(() => {
  parts.fake.settings = {};
  parts.fake.shown.length = 0;
});

test('what is not found, or of no use, is said with what to do', () => {
  const { aboutNotLocated, aboutUnusable, HOW_TO_GET_IT } = parts;
  assert.equal(
    aboutNotLocated(new NotLocated('nowhere')),
    `turnguard is neither beside the Python interpreter nor on PATH. ${HOW_TO_GET_IT}`,
  );
  assert.match(aboutNotLocated(new NotLocated('noProgram', '/x')), /^\/x is not a program\. .*turnguard\.path/);
  assert.match(aboutNotLocated(new NotLocated('untrusted', '/x')), /^\/x is in a workspace.* Trust .*turnguard\.path/);
  assert.match(aboutUnusable(new Unusable('/x', '', undefined)), /^\/x is not turnguard\. Set turnguard\.path/);
  assert.match(aboutUnusable(new Unusable('/x', '9', 2)), /speaks protocol 2, not 1\. Update this extension\.$/);
  assert.ok(aboutUnusable(new Unusable('/x', '0', 0)).endsWith(`not 1. Update it. ${HOW_TO_GET_IT}`));
});

test('how to get it is what the README says, in one sentence that names the setting; nobody is sent to PyPI', async () => {
  const { HOW_TO_GET_IT } = parts;
  const [, command] = /`([^`]+)`/.exec(HOW_TO_GET_IT);
  assert.match(HOW_TO_GET_IT, /^In a clone .* set turnguard\.path to its \.venv\/bin\/turnguard\.$/);
  const { description } = JSON.parse(await read('package.json')).contributes.walkthroughs[0].steps[0];
  assert.ok(description.includes(HOW_TO_GET_IT.replaceAll('`', '``')), 'as a walkthrough writes code');
  for (const path of ['README.md', 'media/walkthrough/install.md'])
    assert.ok((await read(path)).includes(command), path);
  for (const path of ['package.json', 'README.md', 'media/walkthrough/install.md', 'src/trouble.ts'])
    assert.doesNotMatch(await read(path), /pip install (--upgrade )?turnguard/, path);
});

test('one word for one condition: in the status bar and in the view', async () => {
  const { viewsWelcome } = JSON.parse(await read('package.json')).contributes;
  for (const [condition, { word }] of Object.entries(CONDITIONS)) {
    const shown =
      condition === 'unguarded'
        ? statusBar({ kind: 'ready' }, 'x', undefined)
        : statusBar({ kind: condition, why: 'x' }, undefined, undefined);
    assert.equal(shown.text.split(': ').at(-1), word);
    const [{ contents }, ...others] = viewsWelcome.filter(
      ({ when }) => when === `turnguard.condition == '${condition}'`,
    );
    assert.deepEqual(others, []);
    assert.match(contents, new RegExp(`^turnguard is ${word}[.,;]`));
  }
  assert.equal(viewsWelcome.length, Object.keys(CONDITIONS).length);
});

test('trouble is told once until the guard is well again, and nothing is said twice in one sentence', () => {
  const trouble = new parts.Trouble();
  const failed = { kind: 'failed', why: 'it ended with code 3, 5 times in a row' };
  const words = 'turnguard is not running, so agents run without it: it ended with code 3, 5 times in a row';
  trouble.state(failed);
  trouble.state(failed);
  assert.deepEqual(parts.fake.shown, [words]);
  trouble.state({ kind: 'ready' });
  trouble.state(failed);
  assert.deepEqual(parts.fake.shown, [words, words]);
});

test('that calls run unguarded stands there as long as they do', async () => {
  const { lasting } = parts.fake;
  const trouble = new parts.Trouble();
  const ends = [
    () => trouble.guardedAgain(),
    () => trouble.state({ kind: 'ready' }),
    () => trouble.state({ kind: 'failed', why: '' }),
  ];
  for (const end of ends) {
    trouble.unguarded('it does not answer', 'silent');
    trouble.unguarded('it does not answer', 'silent');
    trouble.state({ kind: 'waiting', why: '' });
    assert.deepEqual([...lasting], ['Tool calls run without turnguard: it does not answer.']);
    end();
    await new Promise(setImmediate);
    assert.equal(lasting.size, 0);
  }
});

test('an error that the guard answers with is told with what to do, and stays', () => {
  const trouble = new parts.Trouble();
  trouble.unguarded('loopShield.maxConsecutiveTools is needed', 'refused');
  trouble.guardedAgain();
  trouble.unguarded('loopShield.maxConsecutiveTools is needed', 'refused');
  assert.deepEqual(parts.fake.shown, ['Tool calls run without turnguard: loopShield.maxConsecutiveTools is needed.']);
  assert.deepEqual(parts.fake.buttons, ['Show Output', 'Restart Server', 'Open Settings']);
});

test('that a guard failed is not told again for each turn that runs without it', () => {
  const trouble = new parts.Trouble();
  trouble.state({ kind: 'failed', why: 'it is gone' });
  trouble.unguarded('it is gone', 'silent');
  assert.equal(parts.fake.lasting.size, 0);
  assert.equal(parts.fake.shown.length, 1);
});

test('with notifications off nothing is told', () => {
  parts.fake.settings = { showNotifications: 'off' };
  new parts.Trouble().unguarded('it does not answer', 'silent');
  assert.deepEqual(parts.fake.shown, []);
  assert.equal(parts.fake.lasting.size, 0);
});
