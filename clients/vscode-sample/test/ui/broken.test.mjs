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
    await workbench.says('turnguard: not running');
    assert.equal(await workbench.severity(), 'error');
    await workbench.toast(/speaks protocol 2; this extension speaks 1\. Update this extension/).waitFor();
    await page.locator('.welcome-view-content', { hasText: 'The guard does not run; agents do, without it.' }).waitFor();
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
    await workbench.says('turnguard: restarting');
    assert.equal(await workbench.severity(), 'warning');
    await workbench.says('turnguard: not running');
    await workbench.toast('5 times in a row').waitFor();
    await workbench.screenshot('crash-loop');
    await workbench.press(workbench.toast('5 times in a row'), 'Show Output');
    await page.locator('.view-line', { hasText: /something\sis\sbroken/ }).first().waitFor();
    await workbench.screenshot('crash-loop-output');
    await workbench.run('View: Toggle Panel Visibility');
  });

  await step('one that says nothing', async () => {
    await editor.setForMachine({ 'turnguard.path': editor.broken('silent') });
    await workbench.says('turnguard: starting');
    await workbench.says('turnguard: restarting');
    assert.match(await workbench.status.getAttribute('aria-label'), /does not answer/);
    await workbench.screenshot('silent-at-start');
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
      await workbench.says('turnguard: no answer');
      assert.equal(await workbench.severity(), 'warning');
      await workbench.toast('tool calls run without it').waitFor();
      assert.equal(await workbench.toast('tool calls run without it').count(), 1);
      await workbench.screenshot('silent-in-a-turn');
    } finally {
      process.kill(pid, 'SIGCONT');
    }
    await workbench.says('halted');
    await workbench.run('turnguard: Stop');
    await workbench.says('stopped');
    await workbench.dismissAll();
  });

  await step('one that is killed in a turn: guarded again after the restart', async () => {
    await workbench.run('turnguard: Run a Demo Turn');
    await workbench.says('4/5');
    process.kill(await editor.daemonProcess(), 'SIGKILL');
    await workbench.says('turnguard: restarting');
    await workbench.says('halted');
    await workbench.run('turnguard: Stop');
    await workbench.says('stopped');
  });
});
