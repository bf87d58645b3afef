// What a person sees of the extension in the workbench, and does there.
import { mkdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Editor } from '../../scripts/editor/editor.mjs';

/** Not in the tree, unless somebody says so. */
const SCREENSHOTS = process.env.SCREENSHOTS ?? join(tmpdir(), 'turnguard-screenshots');
const FAILURES = join(tmpdir(), 'turnguard-failed-steps');

const STATUS = '[id="turnguard.turnguard-sample.turnguard.status"]';
const SEVERITIES = { error: '.error-kind', warning: '.warning-kind', none: ':not(.error-kind, .warning-kind)' };

/** In the page: keeps all that the status bar says. */
function recordStatus(status) {
  window.turnguardSaid = [];
  new MutationObserver(() => {
    const text = document.querySelector(status)?.textContent;
    if (text !== undefined && text !== window.turnguardSaid.at(-1)) window.turnguardSaid.push(text);
  }).observe(document, { subtree: true, childList: true, characterData: true });
}

export class Workbench {
  hasFailed = false;

  /** An editor of its own with the extension, and a page that shows its folder; ended with the test. */
  static async open(test, { prepare, ...options } = {}) {
    const editor = await Editor.start(options);
    test.after(() => editor.close());
    await prepare?.(editor);
    const workbench = new Workbench();
    workbench.editor = editor;
    const { page, go } = await editor.open();
    workbench.page = page;
    await page.addInitScript(recordStatus, STATUS);
    await go();
    await workbench.status.waitFor();
    return workbench;
  }

  get status() {
    return this.page.locator(STATUS).first();
  }

  get rows() {
    return this.page.locator('.pane-body .monaco-list-row');
  }

  get toasts() {
    return this.page.locator('.notifications-toasts .notification-list-item');
  }

  toast(text) {
    return this.toasts.filter({ hasText: text });
  }

  /** Waits until the status bar says so, in the colour of that severity: `error`, `warning` or `none`. For what lasts. */
  async says(text, severity) {
    await this.page
      .locator(`${STATUS}${SEVERITIES[severity] ?? ''}`)
      .filter({ hasText: text })
      .first()
      .waitFor();
  }

  /**
   * Waits until the status bar has said so, since what this was asked for last. For what may be over before a busy
   * machine comes to look.
   */
  async hasSaid(text) {
    const isSaid = (text) => {
      const at = window.turnguardSaid.findIndex((said) => said.includes(text));
      if (at >= 0) window.turnguardSaid.splice(0, at + 1);
      return at >= 0;
    };
    await this.page.waitForFunction(isSaid, text, { polling: 100 });
  }

  async openSessions() {
    await this.page.locator('.activitybar a[aria-label^="Turnguard"]').first().click();
    await this.page.mouse.move(640, 400); // Else what stands under the pointer covers the tree.
  }

  /** A command, by its title in the palette. */
  async run(title) {
    await this.page.keyboard.press('F1');
    const input = this.page.locator('.quick-input-widget input').first();
    await input.fill(`>${title}`);
    // Enter takes the row that has the focus, which is not ours before the list is filtered.
    await this.page.locator('.quick-input-list .monaco-list-row.focused', { hasText: title }).waitFor();
    await this.page.keyboard.press('Enter');
  }

  /** An item of the menu of the status bar. */
  async choose(label) {
    await this.status.click();
    await this.page.locator('.quick-input-list .monaco-list-row', { hasText: label }).first().click();
  }

  /** A button of a notification. */
  press(toast, label) {
    return toast.locator('.monaco-button', { hasText: label }).click();
  }

  /** Closes all notifications, which says no to their questions. */
  async dismissAll() {
    await this.run('Notifications: Clear All Notifications');
    await this.toasts.first().waitFor({ state: 'detached' });
  }

  /** An action that stands on a row of the tree while the pointer is on it. */
  async act(row, label) {
    await row.hover();
    await row.locator(`.action-label[aria-label^="${label}"]`).click();
  }

  /** The lines that the output channel shows. */
  async output() {
    await this.run('turnguard: Show Output');
    const lines = this.page.locator('.output-view .view-line, .panel .view-line');
    await lines.first().waitFor();
    return lines;
  }

  async screenshot(name) {
    await mkdir(SCREENSHOTS, { recursive: true });
    await this.page.mouse.move(640, 400);
    await this.page.screenshot({ path: join(SCREENSHOTS, `${name}.png`), animations: 'disabled' });
  }

  /** A step of a test. When it fails, what was on the screen is kept, and the steps after it are skipped. */
  async step(test, name, act) {
    await test.test(name, { skip: this.hasFailed }, async () => {
      try {
        await act();
      } catch (error) {
        this.hasFailed = true;
        const path = join(FAILURES, `${name.replaceAll(/\W+/g, '-')}.png`);
        await mkdir(FAILURES, { recursive: true });
        await this.page.screenshot({ path });
        console.error(`the screen is in ${path}, and this is what the editor said:\n${this.editor.log.join('')}`);
        throw error;
      }
    });
  }
}
