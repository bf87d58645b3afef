/** Notifications: one for each halt and its cause, and one when the guard is missing. Closing one stops the turn. */

import * as vscode from 'vscode';
import type { Decision, GuardState, Halt } from './guard';
import { notificationLevel } from './settings';

const CONTINUE_ONCE = 'Continue Once';
const RAISE_CAP = 'Raise Cap';
const STOP = 'Stop';

export const ALREADY_DECIDED = 'That was decided already, so nothing was changed.';

/** Asks about a halt. The tree, the menu and the chat can answer too; the first answer counts. */
export function askAboutHalt(sessionId: string, halt: Halt, message: string): void {
  void vscode.window.showWarningMessage(`${sessionId}: ${message}`, CONTINUE_ONCE, RAISE_CAP, STOP).then((choice) => {
    if (!halt.answer(decisionOf(choice)) && choice !== undefined && choice !== STOP)
      void vscode.window.showInformationMessage(ALREADY_DECIDED);
  });
}

function decisionOf(choice: string | undefined): Decision {
  if (choice === CONTINUE_ONCE) return { action: 'continueOnce' };
  if (choice === RAISE_CAP) return { action: 'raiseCap' };
  return { action: 'stop' };
}

export function tellWarning(message: string): void {
  if (notificationLevel() === 'warn') void vscode.window.showInformationMessage(message);
}

/** What is wrong with the guard itself, each thing once until it is well again. */
export class GuardTrouble {
  private told = '';

  state(state: GuardState): void {
    if (state.kind === 'failed') this.tell(`turnguard does not run, and agents run without it: ${state.why}`);
    if (state.kind === 'ready') this.told = '';
  }

  unguarded(why: string): void {
    this.tell(`turnguard says nothing, so tool calls run without it: ${why}`);
  }

  private tell(message: string): void {
    if (message === this.told || notificationLevel() === 'off') return;
    this.told = message;
    const choices = {
      'Show Output': 'turnguard.showOutput',
      'Restart Server': 'turnguard.restart',
      'Open Settings': 'turnguard.openSettings',
    };
    void vscode.window.showErrorMessage(message, ...Object.keys(choices)).then((choice) => {
      if (choice !== undefined) void vscode.commands.executeCommand(choices[choice as keyof typeof choices]);
    });
  }
}
