/** The tree of sessions; below each, what its last finding rests on. */

import * as vscode from 'vscode';
import {
  capInWords,
  evidence,
  isOfCap,
  isSetIn,
  label,
  propertyOf,
  sessionInWords,
  type Controls,
  type Line,
  type Phase,
} from './guard';
import type { Sessions } from './sessions';

/** A session, or with `line` something below it. */
export interface Node {
  sessionId: string;
  line?: Line;
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
    return line === undefined ? this.sessionItem(sessionId) : lineItem(line);
  }

  private sessionItem(sessionId: string): vscode.TreeItem {
    const halt = this.controls.haltOf(sessionId);
    const { Collapsed, Expanded } = vscode.TreeItemCollapsibleState;
    const item = new vscode.TreeItem(label(sessionId), halt === undefined ? Collapsed : Expanded);
    // With the state in its id, so that the evidence of a halt unfolds by itself.
    item.id = `${sessionId} ${halt === undefined ? '' : 'halted'}`;
    item.contextValue = `session.${this.choices(sessionId)}`;
    const status = this.sessions.status(sessionId);
    if (status === undefined) return item;
    const phase = this.sessions.phase(status);
    item.iconPath = ICONS[phase];
    item.description = sessionInWords(status, phase);
    item.tooltip = [`${sessionId}: ${item.description}`, halt?.verdict.userMessage].filter(Boolean).join('\n\n');
    return item;
  }

  /** Which actions stand on the row: package.json says which for what this gives. */
  private choices(sessionId: string): string {
    const halt = this.controls.haltOf(sessionId);
    if (halt !== undefined) return isOfCap(halt.verdict) ? 'halted.cap' : 'halted';
    return this.controls.isRunning(sessionId) ? 'running' : 'idle';
  }

  /** Below a halt its evidence comes first. */
  private details(sessionId: string): Line[] {
    const status = this.sessions.status(sessionId);
    if (status === undefined) return [];
    const { overrides, cap } = status;
    const session = this.sessions.get(sessionId);
    const finding = this.sessions.finding(status);
    const repeated = session?.trail.mostRepeated(finding?.tool);
    const isItsOwn = isSetIn(session?.options.settings, finding?.setting ?? '');
    const setBy = isItsOwn ? `the ${session?.options.agentId ?? sessionId} agent` : undefined;
    return [
      ...(finding === undefined ? [] : evidence(finding, repeated, setBy)),
      ...(finding === undefined || overrides.length > 0 ? [capInWords(cap)] : []),
      ...overrides.map(({ action, calls }) => ({
        label: OVERRIDES[action],
        detail: calls === undefined ? '' : `by ${calls}`,
      })),
    ];
  }

  private updateBadge(): void {
    const value = this.sessions.halted().length;
    this.view.badge =
      value === 0 ? undefined : { value, tooltip: value === 1 ? '1 halted turn' : `${value} halted turns` };
  }

  dispose(): void {
    this.view.dispose();
  }
}

function lineItem({ label: name, detail, setting }: Line): vscode.TreeItem {
  const item = new vscode.TreeItem(name);
  item.description = detail;
  item.tooltip = `${name} ${detail}`;
  const property = setting === undefined ? undefined : propertyOf(setting);
  if (property !== undefined)
    item.command = { title: 'Open', command: 'workbench.action.openSettings', arguments: [`@id:${property}`] };
  return item;
}

const ICONS: Record<Phase, vscode.ThemeIcon> = {
  halted: new vscode.ThemeIcon('stop-circle', new vscode.ThemeColor('list.errorForeground')),
  running: new vscode.ThemeIcon('sync~spin'),
  repeats: new vscode.ThemeIcon('warning', new vscode.ThemeColor('list.warningForeground')),
  waiting: new vscode.ThemeIcon('sync~spin'),
  unguarded: new vscode.ThemeIcon('warning', new vscode.ThemeColor('list.warningForeground')),
  stopped: new vscode.ThemeIcon('circle-slash'),
  idle: new vscode.ThemeIcon('shield'),
  disabled: new vscode.ThemeIcon('shield'),
};

const OVERRIDES = {
  continueOnce: 'Continued once',
  raiseCap: 'Cap raised',
  disable: 'Guards off',
  enable: 'Guards on',
};
