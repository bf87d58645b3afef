/** The settings of VS Code, as they go to the daemon. */

import * as vscode from 'vscode';
import { settingsSet, type Settings } from './guard';

/** What somebody set, for the whole window or for one folder of it. */
export function settingsFor(scope?: vscode.Uri): { person: Settings; workspace: Settings } {
  const configuration = vscode.workspace.getConfiguration(undefined, scope ?? null);
  return settingsSet((property) => configuration.inspect(property));
}

export type NotificationLevel = 'off' | 'halt' | 'warn';

export function notificationLevel(): NotificationLevel {
  return vscode.workspace.getConfiguration('turnguard').get<NotificationLevel>('showNotifications', 'halt');
}

/** The program that the person named. A workspace counts once it is trusted; VS Code sees to that too. */
export function pathSetting(): string {
  const found = vscode.workspace.getConfiguration('turnguard').inspect<string>('path');
  const ofWorkspace = vscode.workspace.isTrusted ? (found?.workspaceFolderValue ?? found?.workspaceValue) : undefined;
  return (ofWorkspace ?? found?.globalValue ?? '').trim();
}
