/** Notifications of turns: one for each halt and its cause, in a few words. Closing one stops the turn. */

import * as vscode from 'vscode';
import { inShort, isOfCap, type Controls, type Decision, type Halt, type Verdict } from './guard';
import { notificationLevel } from './settings';

const CONTINUE_ONCE = 'Continue Once';
const RAISE_CAP = 'Raise Cap';
const STOP = 'Stop';

export const ALREADY_DECIDED = 'That was decided already, so nothing was changed.';
export const ALREADY_OVER = 'That turn is over already.';

/**
 * Asks about a halt. The tree, the menu and the chat can answer too; the first answer counts. Stop stops the turn
 * whenever it is pressed: the notification stays on the screen after others have let the turn go on.
 */
export function askAboutHalt(sessionId: string, halt: Halt, controls: Pick<Controls, 'stop'>): void {
  const message = `${inShort(sessionId, halt.verdict)} Let it go on?`;
  const choices = isOfCap(halt.verdict) ? [CONTINUE_ONCE, RAISE_CAP, STOP] : [CONTINUE_ONCE, STOP];
  void vscode.window.showWarningMessage(message, ...choices).then((choice) => {
    if (halt.answer(decisionOf(choice)) || choice === undefined) return;
    if (choice !== STOP) void vscode.window.showInformationMessage(ALREADY_DECIDED);
    else if (!controls.stop(sessionId)) void vscode.window.showInformationMessage(ALREADY_OVER);
  });
}

function decisionOf(choice: string | undefined): Decision {
  if (choice === CONTINUE_ONCE) return { action: 'continueOnce' };
  if (choice === RAISE_CAP) return { action: 'raiseCap' };
  return { action: 'stop' };
}

/** `verdict`: what the message is about, if it is about one. */
export function tellWarning(sessionId: string, message: string, verdict?: Verdict): void {
  if (notificationLevel() !== 'warn') return;
  void vscode.window.showInformationMessage(verdict === undefined ? message : inShort(sessionId, verdict));
}
