/** The commands, and the menu of the status bar that offers those that make sense now. */

import * as vscode from 'vscode';
import { isOfCap, type Controls } from './guard';
import { installHook } from './hooks';
import { ALREADY_DECIDED } from './notifications';
import type { Sessions } from './sessions';

export interface Commands {
  controls: Controls;
  sessions: Sessions;
  log: vscode.LogOutputChannel;
  restart(): Promise<void>;
  runDemo(): Promise<void>;
}

/** What a command is about: a node of the tree, a halt in the chat; from the palette comes nothing. */
interface About {
  sessionId: string;
  haltId?: number;
}

export function registerCommands(context: Commands): vscode.Disposable {
  const { controls, sessions, log } = context;
  const tell = (message: string) => void vscode.window.showInformationMessage(message);
  const onSession =
    (act: (sessionId: string) => unknown, { always = false } = {}) =>
    async (about?: About) => {
      const sessionId = about?.sessionId ?? controls.halted().at(-1) ?? sessions.active()?.sessionId;
      if (sessionId === undefined || !controls.isRunning(sessionId)) tell('No turn runs that could be changed.');
      else if (!always && about?.haltId !== undefined && !controls.isHalted(sessionId, about.haltId))
        tell(ALREADY_DECIDED);
      else await act(sessionId);
    };
  const handlers: Record<string, (about?: About) => unknown> = {
    'turnguard.continueOnce': onSession((id) => controls.continueOnce(id)),
    'turnguard.raiseCap': onSession((id) => controls.raiseCap(id)),
    // Also by the button of a halt that was decided: whoever presses Stop wants the turn to end.
    'turnguard.stop': onSession((id) => controls.stop(id), { always: true }),
    'turnguard.restart': () => context.restart(),
    'turnguard.runDemo': () => context.runDemo(),
    'turnguard.showOutput': () => log.show(),
    'turnguard.showMenu': () => showMenu(controls, sessions),
    'turnguard.installHook': () => installHook(log),
    'turnguard.openSettings': () => openSettings(),
    'turnguard.openWalkthrough': () =>
      vscode.commands.executeCommand('workbench.action.openWalkthrough', 'turnguard.turnguard-sample#start'),
  };
  return vscode.Disposable.from(
    ...Object.entries(handlers).map(([name, act]) => vscode.commands.registerCommand(name, act)),
  );
}

/** In a remote window the guard runs there, and where it is counts there: the tab of the person does not have that. */
async function openSettings(): Promise<void> {
  const query = '@ext:turnguard.turnguard-sample';
  if (vscode.env.remoteName === undefined) await vscode.commands.executeCommand('workbench.action.openSettings', query);
  else await vscode.commands.executeCommand('workbench.action.openRemoteSettings', { query });
}

async function showMenu(controls: Controls, sessions: Sessions): Promise<void> {
  const halted = controls.halted().at(-1);
  const active = sessions.active()?.sessionId;
  const running = halted ?? (active !== undefined && controls.isRunning(active) ? active : undefined);
  const halt = halted === undefined ? undefined : controls.haltOf(halted);
  const canRaise = running !== undefined && (halt === undefined || isOfCap(halt.verdict));
  const items = [
    ...(halt === undefined ? [] : [{ label: '$(debug-continue) Continue Once', command: 'turnguard.continueOnce' }]),
    ...(canRaise ? [{ label: '$(arrow-up) Raise Cap', command: 'turnguard.raiseCap' }] : []),
    ...(running === undefined ? [] : [{ label: '$(debug-stop) Stop', command: 'turnguard.stop' }]),
    { label: '$(list-tree) Show Sessions', command: 'turnguard.sessions.focus' },
    { label: '$(play) Run a Demo Turn', command: 'turnguard.runDemo' },
    { label: '$(debug-restart) Restart Server', command: 'turnguard.restart' },
    { label: '$(output) Show Output', command: 'turnguard.showOutput' },
    { label: '$(gear) Open Settings', command: 'turnguard.openSettings' },
  ].map((item) =>
    running !== undefined && SESSION_COMMANDS.has(item.command) ? { ...item, description: running } : item,
  );
  const choice = await vscode.window.showQuickPick(items, { title: 'turnguard' });
  if (choice !== undefined) await vscode.commands.executeCommand(choice.command, running && { sessionId: running });
}

const SESSION_COMMANDS = new Set(['turnguard.continueOnce', 'turnguard.raiseCap', 'turnguard.stop']);
