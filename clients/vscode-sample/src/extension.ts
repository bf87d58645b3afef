/** Puts the parts together. */

import * as vscode from 'vscode';
import { registerCommands } from './commands';
import { Daemon } from './daemon';
import { runDemo } from './demo';
import { Controls } from './guard';
import { GuardTrouble } from './notifications';
import { ModelAgent, registerParticipant } from './participant';
import { Sessions } from './sessions';
import { SessionsTree } from './sessionsTree';
import { StatusBar } from './statusBar';
import { registerStatusTool } from './statusTool';
import { Turns } from './turns';

let daemon: Daemon | undefined;

/** What other extensions get, to guard loops of their own; the tests use it too. */
export interface Api {
  daemon: Daemon;
  sessions: Sessions;
  controls: Controls;
  turns: Turns;
  ModelAgent: typeof ModelAgent;
}

export function activate(context: vscode.ExtensionContext): Api {
  const log = vscode.window.createOutputChannel('turnguard', { log: true });
  const controls = new Controls();
  const sessions = new Sessions(controls);
  const status = new StatusBar(sessions);
  const trouble = new GuardTrouble();
  const running = new Daemon(log, {
    state: (state) => {
      if (state.kind !== 'ready') sessions.forget();
      void vscode.commands.executeCommand('setContext', 'turnguard.state', state.kind);
      trouble.state(state);
      status.unguarded = undefined;
      status.update(state);
    },
    session: (session) => sessions.update(session),
    loop: (loop) => sessions.found(loop),
    message: (text) => void vscode.window.showWarningMessage(text),
    unguarded: (why) => {
      trouble.unguarded(why);
      status.unguarded = why;
      sessions.refresh();
    },
    guardedAgain: () => {
      log.info('the guard answers again');
      status.unguarded = undefined;
      sessions.refresh();
    },
  });
  daemon = running;
  sessions.onDidChange(() => status.update(running.guard.state));
  const turns = new Turns(running.guard, sessions, controls);
  context.subscriptions.push(
    log,
    status,
    running,
    new SessionsTree(sessions, controls),
    registerCommands({ log, sessions, controls, restart: () => running.restart(), runDemo: () => runDemo(turns) }),
    registerParticipant(turns),
    registerStatusTool(sessions),
  );
  return { daemon: running, sessions, controls, turns, ModelAgent };
}

export async function deactivate(): Promise<void> {
  await daemon?.guard.stop();
}
