/** What is wrong with the guard and what to do about it: this extension's words for what the library reports. */

import * as vscode from 'vscode';
import { CONDITIONS, type GuardState, type NotLocated, type UnguardedCause, type Unusable } from './guard';
import { notificationLevel } from './settings';

/** As in the README, and in media/walkthrough/install.md. */
export const HOW_TO_GET_IT =
  'In a clone of turnguard run `python3 -m venv .venv && .venv/bin/pip install .`, ' +
  'and set turnguard.path to its .venv/bin/turnguard.';

export function aboutUnusable(error: Unusable): string {
  if (error.spoken === undefined) return `${error.message}. Set turnguard.path to the turnguard program.`;
  return `${error.message}. ${error.isOlder ? `Update it. ${HOW_TO_GET_IT}` : 'Update this extension.'}`;
}

export function aboutNotLocated(error: NotLocated): string {
  switch (error.why) {
    case 'untrusted':
      return `${error.message}. Trust the workspace, or set turnguard.path to another program.`;
    case 'noProgram':
      return `${error.message}. Correct turnguard.path, or empty it to search.`;
    case 'nowhere':
      return `${error.message}. ${HOW_TO_GET_IT}`;
  }
}

const CHOICES = {
  'Show Output': 'turnguard.showOutput',
  'Restart Server': 'turnguard.restart',
  'Open Settings': 'turnguard.openSettings',
};

/** Tells it, each thing once until the guard is well again. */
export class Trouble {
  private told = '';
  private isFailed = false;
  /** Takes back what is told for as long as it is true. */
  private takeBack: (() => void) | undefined;

  state(state: GuardState): void {
    // While a daemon is restarting calls run without it, too.
    if (state.kind !== 'waiting' && state.kind !== 'starting') this.guardedAgain();
    this.isFailed = state.kind === 'failed';
    if (state.kind === 'failed')
      this.tell(`turnguard is ${CONDITIONS.failed.word}, so agents run without it: ${state.why}`);
    if (state.kind === 'ready') this.told = '';
  }

  unguarded(why: string, cause: UnguardedCause): void {
    const message = `Tool calls run without turnguard: ${why}.`;
    if (cause === 'refused') this.tell(message);
    else if (!this.isFailed) this.tellWhileItLasts(message); // Else that is what was told.
  }

  guardedAgain(): void {
    this.takeBack?.();
    this.takeBack = undefined;
  }

  /** Of all notifications VS Code lets an extension take back only that of a progress, which is one line. */
  private tellWhileItLasts(title: string): void {
    if (this.takeBack !== undefined || notificationLevel() === 'off') return;
    const lasts = new Promise<void>((resolve) => (this.takeBack = resolve));
    void vscode.window.withProgress({ location: vscode.ProgressLocation.Notification, title }, () => lasts);
  }

  private tell(message: string): void {
    if (message === this.told || notificationLevel() === 'off') return;
    this.told = message;
    void vscode.window.showErrorMessage(message, ...Object.keys(CHOICES)).then((choice) => {
      if (choice !== undefined) void vscode.commands.executeCommand(CHOICES[choice as keyof typeof CHOICES]);
    });
  }
}
