/** The status bar item: how the guard is, and how far the turn is that something happened in last. */

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
  /** Why calls run without the guard, if they do. */
  unguarded: string | undefined;

  constructor(private readonly sessions: Sessions) {
    this.item.name = 'turnguard';
    this.item.command = 'turnguard.showMenu';
    this.item.show();
  }

  update(state: GuardState): void {
    const session = this.sessions.active();
    const shown = session && {
      status: session,
      phase: this.sessions.phase(session),
      finding: this.sessions.finding(session),
    };
    const { text, spoken, severity } = statusBar(state, this.unguarded, shown);
    this.item.text = text;
    this.item.tooltip = `${spoken}\nClick for what can be done.`;
    this.item.accessibilityInformation = { label: spoken, role: 'button' };
    this.item.backgroundColor = BACKGROUNDS[severity];
  }

  dispose(): void {
    this.item.dispose();
  }
}
