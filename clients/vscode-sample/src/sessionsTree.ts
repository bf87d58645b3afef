/** The tree of sessions; below each, what its last finding rests on. */

import * as vscode from 'vscode';
import { capInWords, evidence, sessionInWords, type Controls } from './guard';
import type { Sessions } from './sessions';

/** A session, or with `line` something below it. */
export interface Node {
  sessionId: string;
  line?: string;
}

export class SessionsTree implements vscode.TreeDataProvider<Node>, vscode.Disposable {
  private readonly view: vscode.TreeView<Node>;
  readonly onDidChangeTreeData: vscode.Event<void>;

  constructor(
    private readonly sessions: Sessions,
    private readonly controls: Controls,
  ) {
    this.onDidChangeTreeData = sessions.onDidChange;
    this.view = vscode.window.createTreeView('turnguard.sessions', { treeDataProvider: this });
    sessions.onDidChange(() => this.updateBadge());
  }

  getChildren(node?: Node): Node[] {
    if (node === undefined) return this.sessions.list().map(({ sessionId }) => ({ sessionId }));
    if (node.line !== undefined) return [];
    return this.details(node.sessionId).map((line) => ({ sessionId: node.sessionId, line }));
  }

  getTreeItem({ sessionId, line }: Node): vscode.TreeItem {
    return line === undefined ? this.sessionItem(sessionId) : new vscode.TreeItem(line);
  }

  private sessionItem(sessionId: string): vscode.TreeItem {
    const isHalted = this.controls.isHalted(sessionId);
    const state = isHalted ? 'halted' : this.controls.isRunning(sessionId) ? 'running' : 'idle';
    const { Collapsed, Expanded } = vscode.TreeItemCollapsibleState;
    const item = new vscode.TreeItem(sessionId, isHalted ? Expanded : Collapsed);
    // With the state in its id, so that the evidence of a halt unfolds by itself.
    item.id = `${sessionId} ${isHalted ? 'halted' : ''}`;
    item.contextValue = `session.${state}`;
    item.iconPath = ICONS[state];
    const status = this.sessions.status(sessionId);
    if (status !== undefined) {
      item.description = sessionInWords(status, this.sessions.phase(status));
      item.tooltip = `${sessionId}: ${item.description}`;
    }
    return item;
  }

  private details(sessionId: string): string[] {
    const status = this.sessions.status(sessionId);
    if (status === undefined) return [];
    const { overrides, cap } = status;
    const finding = this.sessions.finding(status);
    const repeated = this.sessions.get(sessionId)?.trail.mostRepeated(finding?.tool);
    return [
      capInWords(cap),
      ...overrides.map(({ action, calls }) => `${OVERRIDES[action]}${calls === undefined ? '' : ` by ${calls}`}`),
      ...(finding === undefined ? [] : evidence(finding, repeated)),
    ];
  }

  private updateBadge(): void {
    const value = this.controls.halted().length;
    this.view.badge =
      value === 0 ? undefined : { value, tooltip: value === 1 ? '1 halted turn' : `${value} halted turns` };
  }

  dispose(): void {
    this.view.dispose();
  }
}

const ICONS = {
  halted: new vscode.ThemeIcon('stop-circle', new vscode.ThemeColor('list.errorForeground')),
  running: new vscode.ThemeIcon('sync~spin'),
  idle: new vscode.ThemeIcon('shield'),
};

const OVERRIDES = {
  continueOnce: 'Continued once',
  raiseCap: 'Cap raised',
  disable: 'Guards off',
  enable: 'Guards on',
};
