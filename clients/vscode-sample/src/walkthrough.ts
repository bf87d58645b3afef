/**
 * The first step of the walkthrough is done when the guard is ready.
 *
 * VS Code counts a context only when it comes to hold after the walkthrough was loaded, which is when somebody opens it,
 * and never again one that held by then. So there are two, of which one holds while the guard is ready, and they change
 * places once a page was opened that may be the walkthrough; extensions are not told more of it.
 */

import * as vscode from 'vscode';
import type { GuardState } from './guard';

/** After a page was opened, so often: it takes a moment to load, on a busy machine more. */
const LOADED_AFTER_MS = [500, 2_000, 8_000];

export class Walkthrough implements vscode.Disposable {
  private isReady = false;
  private isOdd = false;
  private readonly subscription = vscode.window.tabGroups.onDidChangeTabs(({ opened }) => {
    if (opened.every(({ input }) => input !== undefined)) return;
    for (const ms of LOADED_AFTER_MS) setTimeout(() => this.changePlaces(), ms);
  });

  state(state: GuardState): void {
    this.isReady = state.kind === 'ready';
    this.changePlaces();
  }

  private changePlaces(): void {
    this.isOdd = !this.isOdd;
    const set = (key: string, value: boolean) => void vscode.commands.executeCommand('setContext', key, value);
    set('turnguard.isReadyOdd', this.isReady && this.isOdd);
    set('turnguard.isReadyEven', this.isReady && !this.isOdd);
  }

  dispose(): void {
    this.subscription.dispose();
  }
}
