// Daemons that are broken: what the person sees, and that agents go on.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Workbench } from './workbench.mjs';

test('a broken daemon', async (t) => {
  const workbench = await Workbench.open(t, {
    prepare: (editor) => editor.setForMachine({ 'turnguard.path': editor.broken('wrong-version') }),
  });
  const { editor, page } = workbench;
  const step = (name, act) => workbench.step(t, name, act);
  await workbench.openSessions();

  await step('one of another version is refused, and it says what to do', async () => {
    await workbench.says('turnguard: not running', 'error');
    await workbench.toast(/speaks protocol 2, not 1\. Update this extension/).waitFor();
    await page
      .locator('.welcome-view-content', { hasText: 'turnguard is not running; agents run without it.' })
      .waitFor();
    await workbench.screenshot('other-version');
    await workbench.dismissAll();
  });

  await step('what is no turnguard is refused', async () => {
    await editor.setForMachine({ 'turnguard.path': editor.broken('other-server') });
    await workbench.toast('is not turnguard').waitFor();
    await workbench.dismissAll();
  });

  await step('a program that is not there', async () => {
    await editor.setForMachine({ 'turnguard.path': '/no/such/turnguard' });
    await workbench.toast('/no/such/turnguard').waitFor();
    await workbench.dismissAll();
  });

  await step('one that ends again and again is started again, later each time, and then given up', async () => {
    await editor.setForMachine({ 'turnguard.path': editor.broken('crash') });
    await workbench.says('turnguard: restarting', 'warning');
    await workbench.says('turnguard: not running', 'error');
    await workbench.toast('5 times in a row. Its last words: something is broken').waitFor();
    await workbench.screenshot('crash-loop');
    await workbench.press(workbench.toast('5 times in a row'), 'Show Output');
    await page
      .locator('.view-line', { hasText: /something\sis\sbroken/ })
      .first()
      .waitFor();
    await workbench.screenshot('crash-loop-output');
    await workbench.run('View: Toggle Panel Visibility');
  });

  await step('one that says nothing', async () => {
    await editor.setForMachine({ 'turnguard.path': editor.broken('silent') });
    await workbench.says('turnguard: starting', 'none');
    await page.locator('.welcome-view-content', { hasText: 'turnguard is starting' }).waitFor();
    await workbench.screenshot('silent-at-start');
    await workbench.hasSaid('turnguard: restarting');
    // It comes again and again, each time for longer.
    await page.locator('[aria-label*="turnguard is restarting: "][aria-label*="does not answer"]').first().waitFor();
  });

  await step('with the setting gone the guard is there', async () => {
    await editor.setForMachine({});
    await workbench.says('turnguard: ready');
  });

  await step('one that falls silent in a turn: the calls run, and that is said once', async () => {
    const pid = await editor.daemonProcess();
    process.kill(pid, 'SIGSTOP');
    try {
      await workbench.run('turnguard: Run a Demo Turn');
      await workbench.says('turnguard: not guarding', 'warning');
      await workbench.toast('Tool calls run without turnguard: it does not answer.').waitFor();
      assert.equal(await workbench.toast('Tool calls run without turnguard: it does not answer.').count(), 1);
      await workbench.screenshot('silent-in-a-turn');
    } finally {
      process.kill(pid, 'SIGCONT');
    }
    await workbench.says('halted');
    // It answers again, so that is no longer true.
    await workbench.toast('Tool calls run without turnguard').waitFor({ state: 'detached' });
    await workbench.run('turnguard: Stop');
    await workbench.says('stopped');
    await workbench.dismissAll();
  });

  await step('one that is killed in a turn: guarded again after the restart', async () => {
    await workbench.run('turnguard: Run a Demo Turn');
    await workbench.says('6/5 halted');
    await workbench.hasSaid('6/5 halted');
    process.kill(await editor.daemonProcess(), 'SIGKILL');
    await workbench.hasSaid('turnguard: restarting');
    // Who waits for an answer does not go with the daemon that asked.
    await workbench.says('6/5 halted');
    await workbench.run('turnguard: Continue Once');
    await workbench.hasSaid('2/5');
    await workbench.says('6/5 halted');
    await workbench.run('turnguard: Stop');
    await workbench.says('stopped');
  });
});
