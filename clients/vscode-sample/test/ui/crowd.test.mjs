// Ten sessions, long names, a dark theme, a narrow panel: whether all of it can still be read.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Workbench } from './workbench.mjs';

test('a crowd', async (t) => {
  const workbench = await Workbench.open(t, {
    withFakes: true,
    settings: { 'workbench.colorTheme': 'Default Dark Modern' },
  });
  const { rows, page } = workbench;
  const step = (name, act) => workbench.step(t, name, act);
  await workbench.openSessions();
  await workbench.says('turnguard: ready');

  await step('each has its row, and each halt its notification and a number in the badge', async () => {
    await workbench.run('Fake: Ten Sessions');
    await rows.filter({ hasText: 'chat-8b1e' }).first().waitFor();
    await workbench.toast('chat-8b1e was stopped: it came to 6 tool calls and may make 5.').waitFor();
    await page.locator('.activitybar .badge-content', { hasText: '3' }).first().waitFor();
    await workbench.says('3 halted');
    await rows.filter({ hasText: '6× mcp__issue_tracker' }).first().waitFor();
    await rows.filter({ hasText: 'chat-5e11' }).filter({ hasText: 'repeats' }).waitFor();
    await workbench.screenshot('crowd-dark');
  });

  await step('a narrow panel shows the state, and the row all that can be done', async () => {
    const edge = await page.locator('.part.sidebar').boundingBox();
    await page.mouse.move(edge.x + edge.width, 600);
    await page.mouse.down();
    await page.mouse.move(edge.x + 190, 600, { steps: 5 });
    await page.mouse.up();
    const row = rows.filter({ hasText: 'chat-42cc' }).first();
    await row.hover();
    for (const label of ['Continue Once', 'Stop']) await row.locator(`.action-label[aria-label^="${label}"]`).waitFor();
    // A cap that did not stop it would be raised in vain.
    assert.equal(await row.locator('.action-label[aria-label^="Raise Cap"]').count(), 0);
    await workbench.screenshot('crowd-narrow');
  });
});
