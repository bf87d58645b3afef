// A turn that repeats itself, in the workbench: seen, halted, let go on, stopped.
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { Workbench } from './workbench.mjs';

test('a turn that repeats itself', async (t) => {
  const workbench = await Workbench.open(t, { withFakes: true });
  const { rows, page } = workbench;
  const step = (name, act) => workbench.step(t, name, act);
  const halt = (calls) => workbench.toast(`demo was stopped: it came to ${calls} tool calls`);
  const session = rows.filter({ hasText: 'demo' }).first();

  await step('the guard is ready, and nothing is guarded', async () => {
    await workbench.says('turnguard: ready', 'none');
    await workbench.openSessions();
    await page.locator('.welcome-view-content', { hasText: 'turnguard is ready, and guards no agent yet' }).waitFor();
    await workbench.screenshot('ready');
  });

  await step('the demo is halted: status bar, notification, tree, badge', async () => {
    await workbench.run('turnguard: Run a Demo Turn');
    await workbench.hasSaid('2/5');
    await workbench.says('6/5 halted', 'error');
    await halt(6).waitFor();
    await session.filter({ hasText: '6/5 calls' }).waitFor();
    for (const evidence of ['3× read_file', '1, 3, 5', 'Set by the demo agent', 'turnguard.model.maxToolCallsPerTurn'])
      await rows.filter({ hasText: evidence }).first().waitFor();
    await page.locator('.activitybar .badge-content', { hasText: '1' }).first().waitFor();
    await workbench.screenshot('halted');
  });

  await step('Raise Cap: it goes on to the new cap', async () => {
    await workbench.press(halt(6), 'Raise Cap');
    await workbench.says('12/10 halted');
    await halt(12).waitFor();
    await rows
      .filter({ hasText: /Cap raised\s*by 5/ })
      .first()
      .waitFor();
    assert.equal(await workbench.toast('was stopped').count(), 1);
    await workbench.screenshot('cap-raised');
  });

  await step('Continue Once: one more pair', async () => {
    await workbench.press(halt(12), 'Continue Once');
    await workbench.says('14/12 halted');
    await halt(14).waitFor();
  });

  await step('Continue Once in the tree', async () => {
    await workbench.act(session, 'Continue Once');
    await workbench.says('16/14 halted');
    await halt(16).waitFor();
    // VS Code lets no extension take a notification back: the old one stays, and changes nothing any more.
    await workbench.press(halt(14), 'Raise Cap');
    await workbench.toast('decided already').waitFor();
    await workbench.says('16/14 halted');
  });

  await step('closing the notification stops the turn', async () => {
    await halt(16).hover();
    await halt(16).locator('.codicon-notifications-clear').click();
    await workbench.says('stopped', 'none');
    await workbench.dismissAll();
    await workbench.screenshot('stopped');
  });

  await step('the demo again: it is halted as before', async () => {
    await workbench.run('turnguard: Run a Demo Turn');
    await workbench.hasSaid('2/5');
    await workbench.says('6/5 halted', 'error');
    await halt(6).waitFor();
  });

  await step('Stop on a notification of a turn that goes on', async () => {
    await workbench.act(session, 'Raise Cap');
    await workbench.hasSaid('8/10');
    await workbench.press(halt(6), 'Stop');
    // Where it was slow, the turn was halted again by then.
    await session.filter({ hasText: /(idle|stopped) · \d+\/10 calls/ }).waitFor();
    await workbench.dismissAll();
  });

  await step('the menu of the status bar', async () => {
    await workbench.status.click();
    await page.locator('.quick-input-list .monaco-list-row', { hasText: 'Show Output' }).first().waitFor();
    await workbench.screenshot('menu');
    await page.keyboard.press('Escape');
    await workbench.choose('Restart Server');
    await workbench.says('turnguard: ready');
    await page.locator('.welcome-view-content', { hasText: 'turnguard is ready, and guards no agent yet' }).waitFor();
  });

  await step('Stop in the tree', async () => {
    await workbench.run('turnguard: Run a Demo Turn');
    await workbench.says('6/5 halted');
    await workbench.act(session, 'Stop');
    await workbench.says('stopped');
    await workbench.dismissAll();
  });

  await step('the output says what was started, and no arguments', async () => {
    const lines = await workbench.output();
    await lines.filter({ hasText: 'starting:' }).first().waitFor();
    await lines
      .filter({ hasText: /turnguard\s\d+\.\d+\.\d+/ })
      .first()
      .waitFor();
    const text = (await lines.allInnerTexts()).join('\n');
    assert.doesNotMatch(text, /app\.ts|page\d|export/);
    await workbench.screenshot('output');
  });

  await step(
    "hooks of VS Code's agent: shown first, written on Write, refused over what is not understood",
    async () => {
      const file = join(workbench.editor.folder, '.github/hooks/turnguard.json');
      const content = () => readFile(file, 'utf8').catch(() => undefined);
      const choose = async (button) => {
        await workbench.run("turnguard: Guard VS Code's Own Agent");
        await page.locator('.monaco-dialog-box', { hasText: 'with the hooks that are shown?' }).waitFor();
        await page
          .locator('.editor-instance .view-line', { hasText: /turnguard\shook\svscode/ })
          .first()
          .waitFor();
        if (button === 'Cancel') await workbench.screenshot('hooks');
        await page.locator('.monaco-dialog-box .monaco-button', { hasText: button }).click();
        await page.locator('.monaco-dialog-box').waitFor({ state: 'detached' });
      };
      await choose('Cancel');
      assert.equal(await content(), undefined);
      await choose('Write');
      await workbench.toast('turnguard.json').waitFor();
      assert.match(await content(), /turnguard hook vscode/);
      await workbench.dismissAll();
      await writeFile(file, '{ "hooks": ');
      await choose('Write');
      await workbench.toast(/The hooks were not written\..* is not plain JSON/).waitFor();
      assert.equal(await content(), '{ "hooks": ');
      await workbench.dismissAll();
    },
  );

  await step('the walkthrough: the guard runs, so its first step is done', async () => {
    await workbench.run('View: Toggle Panel Visibility');
    await workbench.run('turnguard: Open Walkthrough');
    await page.locator('.gettingStartedContainer', { hasText: 'See a turn be stopped' }).waitFor();
    await page.getByRole('checkbox', { name: 'Start the guard: Completed' }).waitFor();
    await page.getByRole('checkbox', { name: 'Ask @guarded: Not completed' }).waitFor();
    await workbench.screenshot('walkthrough');
  });

  await step('Open Settings opens those that turnguard.path is among', async () => {
    await workbench.run('turnguard: Open Settings');
    await page
      .locator('.settings-editor [aria-label*="turnguard.path" i], .settings-editor [data-key="turnguard.path"]')
      .first()
      .waitFor();
    await workbench.screenshot('settings');
  });
});
