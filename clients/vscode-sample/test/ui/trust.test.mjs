// A folder that is not trusted names a program of its own as the guard.
import assert from 'node:assert/strict';
import { chmod, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { Workbench } from './workbench.mjs';

test('a folder with a guard of its own', async (t) => {
  let program;
  const workbench = await Workbench.open(t, {
    trust: false,
    prepare: async (editor) => {
      program = join(editor.folder, 'guard.sh');
      await writeFile(program, '#!/bin/sh\ntouch "$0.ran"\n');
      await chmod(program, 0o755);
      await editor.setForFolder({ 'turnguard.path': program });
    },
  });
  const ran = () =>
    stat(`${program}.ran`).then(
      () => true,
      () => false,
    );

  await workbench.step(t, 'not trusted: it is not executed, the one on PATH is', async () => {
    await workbench.says('turnguard: ready');
    await workbench.page.locator('.statusbar-item', { hasText: 'Restricted Mode' }).waitFor();
    assert.equal(await ran(), false);
    await workbench.screenshot('restricted');
  });

  await workbench.step(t, 'trusted: it is', async () => {
    await workbench.run('Workspaces: Manage Workspace Trust');
    await workbench.page.locator('.workspace-trust-editor .monaco-button', { hasText: 'Trust' }).first().click();
    await workbench.says('turnguard: restarting');
    assert.equal(await ran(), true);
  });
});
