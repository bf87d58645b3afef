/** Puts the parts together. */

import * as vscode from 'vscode';
import { registerCommands } from './commands';
import { Daemon } from './daemon';
import { runDemo } from './demo';
import { conditionOf, Controls, type GuardState } from './guard';
import { writeHooks } from './hooks';
import { ModelAgent, registerParticipant } from './participant';
import { Sessions } from './sessions';
import { SessionsTree } from './sessionsTree';
import { StatusBar } from './statusBar';
import { registerStatusTool } from './statusTool';
import { Trouble } from './trouble';
import { Turns } from './turns';
import { Walkthrough } from './walkthrough';

let daemon: Daemon | undefined;

/** What other extensions get, to guard loops of their own; the tests use it too. */
export interface Api {
  daemon: Daemon;
  sessions: Sessions;
  controls: Controls;
  turns: Turns;
  ModelAgent: typeof ModelAgent;
  writeHooks: typeof writeHooks;
  log: vscode.LogOutputChannel;
}

export function activate(context: vscode.ExtensionContext): Api {
  const log = vscode.window.createOutputChannel('turnguard', { log: true });
  const controls = new Controls();
  const sessions = new Sessions(controls);
  const status = new StatusBar(sessions);
  const trouble = new Trouble();
  const walkthrough = new Walkthrough();
  let guardState: GuardState = { kind: 'stopped' };
  let unguarded: string | undefined;
  const show = () => status.update(guardState, unguarded);
  const showCondition = () => {
    show();
    // For the welcome view.
    const condition = conditionOf(guardState, unguarded);
    void vscode.commands.executeCommand('setContext', 'turnguard.condition', condition);
  };
  const running = new Daemon(log, {
    state: (state) => {
      guardState = state;
      unguarded = undefined;
      sessions.guarded(state.kind === 'ready');
      trouble.state(state);
      walkthrough.state(state);
      if (state.kind !== 'ready') sessions.forget();
      showCondition();
    },
    session: (session) => sessions.update(session),
    loop: (loop) => sessions.found(loop),
    message: (text) => void vscode.window.showWarningMessage(text),
    unguarded: (why, cause) => {
      trouble.unguarded(why, cause);
      unguarded = why;
      sessions.guarded(false);
      showCondition();
    },
    guardedAgain: () => {
      log.info('the guard answers again');
      trouble.guardedAgain();
      unguarded = undefined;
      sessions.guarded(true);
      showCondition();
    },
  });
  daemon = running;
  sessions.onDidChange(show);
  const turns = new Turns(running.guard, sessions, controls, log);
  context.subscriptions.push(
    log,
    status,
    walkthrough,
    running,
    new SessionsTree(sessions, controls),
    registerCommands({ log, sessions, controls, restart: () => running.restart(), runDemo: () => runDemo(turns) }),
    registerParticipant(turns),
    registerStatusTool(sessions),
  );
  return { daemon: running, sessions, controls, turns, ModelAgent, writeHooks, log };
}

export async function deactivate(): Promise<void> {
  await daemon?.guard.stop();
}
