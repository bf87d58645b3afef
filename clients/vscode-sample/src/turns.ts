/** Turns of agents in this window: guarded, shown, and stoppable from everywhere. */

import * as vscode from 'vscode';
import {
  runTurn,
  Session,
  type Agent,
  type Controls,
  type Decision,
  type Guard,
  type Halt,
  type Outcome,
  type SessionOptions,
  type Verdict,
} from './guard';
import { askAboutHalt, tellWarning } from './notifications';
import type { Sessions } from './sessions';
import { notificationLevel, settingsFor } from './settings';

/** An agent; asking about a halt is done for it, in the same way for all. */
export interface WindowAgent extends Omit<Agent, 'decide'> {
  /** A halt waits for an answer. */
  halted?(halt: Halt, message: string): void;
}

export class Turns {
  /** How many turns each session had. */
  private readonly numbers = new WeakMap<Session, number>();

  constructor(
    private readonly guard: Guard,
    private readonly sessions: Sessions,
    private readonly controls: Controls,
    private readonly log: vscode.LogOutputChannel,
  ) {}

  /** The session of that id; one conversation with an agent is one session. */
  session(options: Omit<SessionOptions, 'workspaceSettings' | 'cwd'>): Session {
    const known = this.sessions.get(options.sessionId);
    if (known !== undefined) return known;
    const folder = vscode.workspace.workspaceFolders?.[0]?.uri;
    const session = new Session(this.guard, {
      ...options,
      workspaceSettings: settingsFor(folder).workspace,
      ...(folder?.scheme === 'file' ? { cwd: folder.fsPath } : {}),
    });
    this.sessions.add(session);
    return session;
  }

  async run(session: Session, agent: WindowAgent, token?: vscode.CancellationToken): Promise<Outcome> {
    if (this.controls.isRunning(session.id)) throw new Error(`A turn of ${session.id} runs already.`);
    const abort = this.controls.begin(session);
    const subscription = token?.onCancellationRequested(() => abort.abort());
    const guarded: Agent = {
      ask: (request) => agent.ask(request),
      invoke: (call, signal) => agent.invoke(call, signal),
      tell: (message, verdict) => {
        this.log.info(`${session.id}: ${message}`);
        tellWarning(session.id, message, verdict);
        agent.tell?.(message, verdict);
      },
      decide: (verdict) => this.decide(session, agent, verdict),
    };
    try {
      const number = (this.numbers.get(session) ?? 0) + 1;
      this.numbers.set(session, number);
      return await runTurn(session, guarded, `${number}`, abort.signal);
    } finally {
      subscription?.dispose();
      this.controls.end(session);
    }
  }

  private decide(session: Session, agent: WindowAgent, verdict: Verdict): Promise<Decision> {
    const message = verdict.userMessage ?? 'The turn was stopped.';
    this.log.info(`${session.id}: ${message}`);
    if (notificationLevel() === 'off') {
      agent.tell?.(message);
      return Promise.resolve({ action: 'stop' });
    }
    const halt = this.controls.halt(session, verdict);
    askAboutHalt(session.id, halt, this.controls);
    agent.halted?.(halt, message);
    return halt.decided;
  }
}
