/** The daemon in VS Code: found, started, configured, started again when another one is to be used. */

import * as vscode from 'vscode';
import {
  CONDITIONS,
  Guard,
  locate,
  NotLocated,
  type GuardState,
  type Notifications,
  type SessionStatus,
  type UnguardedCause,
} from './guard';
import { onInterpreterChange, selectedInterpreter } from './python';
import { pathSetting, settingsFor } from './settings';
import { aboutNotLocated, aboutUnusable } from './trouble';

/** What the rest of the extension is told. */
export interface DaemonListener {
  state(state: GuardState): void;
  session(status: SessionStatus): void;
  loop(loop: Notifications['turnguard/didDetectLoop']): void;
  message(text: string): void;
  unguarded(why: string, cause: UnguardedCause): void;
  guardedAgain(): void;
}

export class Daemon implements vscode.Disposable {
  readonly guard: Guard;
  /** The program that was started last. */
  private program = '';
  private readonly subscriptions: vscode.Disposable[] = [];

  constructor(
    private readonly log: vscode.LogOutputChannel,
    listener: DaemonListener,
  ) {
    this.guard = new Guard({
      ...listener,
      command: async () => {
        this.program = await findProgram();
        return [this.program, 'serve'];
      },
      settings: () => settingsFor().person,
      unusable: aboutUnusable,
      log: (line) => log.info(line),
      state: (state) => {
        if ('why' in state) log.info(`${CONDITIONS[state.kind].word}: ${state.why}`);
        listener.state(state);
      },
      unguarded: (why, cause) => {
        log.warn(`calls run without the guard: ${why}`);
        listener.unguarded(why, cause);
      },
    });
    this.subscriptions.push(
      vscode.workspace.onDidChangeConfiguration((change) => {
        if (change.affectsConfiguration('turnguard.path')) void this.restart();
        else if (change.affectsConfiguration('turnguard')) void this.guard.configure();
      }),
      vscode.workspace.onDidGrantWorkspaceTrust(() => void this.restartIfMoved()),
    );
    void onInterpreterChange(() => void this.restartIfMoved()).then((subscription) => {
      if (subscription !== undefined) this.subscriptions.push(subscription);
    });
    this.guard.start();
  }

  async restart(): Promise<void> {
    this.log.info('restart');
    await this.guard.restart();
  }

  /** Only if another program is to be used now: a restart forgets the turns. */
  private async restartIfMoved(): Promise<void> {
    const program = await findProgram().catch(() => '');
    if (program !== this.program || this.guard.state.kind === 'failed') await this.restart();
  }

  dispose(): void {
    vscode.Disposable.from(...this.subscriptions).dispose();
  }
}

/** Rejects with words for the person. */
export async function findProgram(): Promise<string> {
  const isTrusted = vscode.workspace.isTrusted;
  const named = pathSetting();
  return locate({
    named,
    isTrusted,
    folders: (vscode.workspace.workspaceFolders ?? [])
      .filter(({ uri }) => uri.scheme === 'file')
      .map(({ uri }) => uri.fsPath),
    interpreter: isTrusted && named === '' ? await selectedInterpreter() : undefined,
    pathVariable: process.env.PATH ?? '',
  }).catch((error: unknown) => {
    throw error instanceof NotLocated ? new Error(aboutNotLocated(error)) : error;
  });
}
