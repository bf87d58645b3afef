import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { isSetIn, settingsSet } from '../../dist/guard.js';
import { guardOf } from './daemon.mjs';

const home = new URL('../../', import.meta.url);
const manifest = JSON.parse(await readFile(new URL('package.json', home)));
const properties = manifest.contributes.configuration.properties;

test('what is generated is not stale', () => {
  execFileSync(process.execPath, ['scripts/generate.mjs', '--check'], { cwd: home, stdio: 'pipe' });
});

test('what nobody set is not sent, whatever an editor would answer', async (t) => {
  const fresh = (property) => ({ key: property, defaultValue: properties[property].default });
  const { person, workspace } = settingsSet(fresh);
  assert.deepEqual([person, workspace], [{}, {}]);
  const { guard } = await guardOf(t, { settings: () => person });
  const { values } = await guard.ask('turnguard/settings', {});
  assert.deepEqual(
    values.filter(({ origin }) => origin !== 'default'),
    [],
  );
});

test('null is not set', () => {
  assert.deepEqual(
    settingsSet(() => ({ globalValue: null, workspaceValue: null })),
    { person: {}, workspace: {} },
  );
});

test('what the person set goes one way, what came with the workspace another; a folder goes before its workspace', () => {
  const set = {
    'turnguard.model.maxToolCallsPerTurn': { globalValue: 200, workspaceValue: 100, workspaceFolderValue: 50 },
    'turnguard.progress.action': { workspaceValue: 'halt' },
    'turnguard.shadow': { globalValue: false },
  };
  assert.deepEqual(
    settingsSet((property) => set[property]),
    {
      person: { model: { maxToolCallsPerTurn: 200 }, turnguard: { shadow: false } },
      workspace: { model: { maxToolCallsPerTurn: 50 }, turnguard: { progress: { action: 'halt' } } },
    },
  );
});

test('whether a session has a setting of its own', () => {
  const own = { model: { maxToolCallsPerTurn: 0 }, tools: { loopDetection: null } };
  assert.ok(isSetIn(own, 'model.maxToolCallsPerTurn'));
  for (const name of ['model.skipLoopDetection', 'tools.loopDetection.enabled', 'turnguard.shadow'])
    assert.ok(!isSetIn(own, name), name);
  for (const none of [undefined, null, {}]) assert.ok(!isSetIn(none, 'model.maxToolCallsPerTurn'));
});

test('the daemon takes every setting under the name that it is sent with', async (t) => {
  const value = ({ enum: choices, type, items, order }, name) => {
    if (choices !== undefined) return choices.findLast((each) => each !== null);
    if (name.endsWith('states')) return { WORK: ['a'] };
    if (name.endsWith('State')) return 'WORK';
    if (items !== undefined) return [{ id: 'a' }];
    return type.includes('integer') ? 40 + order : 'x';
  };
  const { person } = settingsSet((property) => ({ globalValue: value(properties[property], property) }));
  const { guard, told } = await guardOf(t, { settings: () => person });
  const { values } = await guard.ask('turnguard/settings', {});
  assert.deepEqual(told.messages, []);
  const names = Object.keys(properties).length - 2;
  assert.equal(values.filter(({ origin }) => origin === 'client').length, names);
});

test('what a workspace sets holds only where it is stricter', async (t) => {
  const { guard } = await guardOf(t, { settings: () => ({ model: { maxToolCallsPerTurn: 50 } }) });
  const open = (sessionId, maxToolCallsPerTurn) =>
    guard.ask('turnguard/openSession', { sessionId, workspaceSettings: { model: { maxToolCallsPerTurn } } });
  assert.equal((await open('looser', 500)).cap.value, 50);
  assert.equal((await open('stricter', 5)).cap.value, 5);
});

test('a program comes from the workspace only if it is trusted', () => {
  assert.deepEqual(manifest.capabilities.untrustedWorkspaces.restrictedConfigurations, ['turnguard.path']);
});
