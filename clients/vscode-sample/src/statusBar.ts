/** The status bar item: how the guard is, and how far the turn is that waits for an answer, or that something happened in last. */

import * as vscode from 'vscode';
import { statusBar, type GuardState, type Severity } from './guard';
import type { Sessions } from './sessions';

const BACKGROUNDS: Record<Severity, vscode.ThemeColor | undefined> = {
  none: undefined,
  warning: new vscode.ThemeColor('statusBarItem.warningBackground'),
  error: new vscode.ThemeColor('statusBarItem.errorBackground'),
};

export class StatusBar implements vscode.Disposable {
  private readonly item = vscode.window.createStatusBarItem('turnguard.status', vscode.StatusBarAlignment.Left, 100);

  constructor(private readonly sessions: Sessions) {
    this.item.name = 'turnguard';
    this.item.command = 'turnguard.showMenu';
    this.item.show();
  }

  /** `unguarded`: why calls run without the guard, if they do. */
  update(state: GuardState, unguarded: string | undefined): void {
    const session = this.sessions.urgent();
    const shown = session && { status: session, phase: this.sessions.phase(session) };
    const { text, spoken, severity } = statusBar(state, unguarded, shown, this.sessions.halted().length);
    this.item.text = text;
    this.item.tooltip = `${spoken}\nClick for what can be done.`;
    this.item.accessibilityInformation = { label: spoken, role: 'button' };
    this.item.backgroundColor = BACKGROUNDS[severity];
  }

  dispose(): void {
    this.item.dispose();
  }
}
