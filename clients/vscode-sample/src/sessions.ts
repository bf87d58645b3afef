/** The sessions that are shown, as the daemon last told of them. */

import * as vscode from 'vscode';
import {
  phaseOf,
  type Controls,
  type Finding,
  type Notifications,
  type Phase,
  type Session,
  type SessionStatus,
} from './guard';

/** Of those that rest, the oldest are closed beyond so many. */
const MAX_SESSIONS = 20;

export class Sessions {
  private readonly known = new Map<string, Session>();
  private readonly statuses = new Map<string, SessionStatus>();
  private readonly loops = new Map<string, Notifications['turnguard/didDetectLoop']>();
  private readonly changed = new vscode.EventEmitter<void>();
  readonly onDidChange = this.changed.event;
  private latest = '';
  private isGuarded = true;

  constructor(private readonly controls: Controls) {
    controls.onChange = () => this.changed.fire();
  }

  get(id: string): Session | undefined {
    return this.known.get(id);
  }

  add(session: Session): void {
    this.known.set(session.id, session);
    const resting = this.list().filter(({ sessionId }) => !this.controls.isRunning(sessionId));
    for (const { sessionId } of resting.slice(MAX_SESSIONS)) {
      void this.known.get(sessionId)?.close();
      this.known.delete(sessionId);
      this.statuses.delete(sessionId);
      this.loops.delete(sessionId);
    }
  }

  update(status: SessionStatus): void {
    if (!this.known.has(status.sessionId)) return;
    this.statuses.set(status.sessionId, status);
    this.latest = status.sessionId;
    this.changed.fire();
  }

  found(loop: Notifications['turnguard/didDetectLoop']): void {
    if (!this.known.has(loop.sessionId)) return;
    this.loops.set(loop.sessionId, loop);
    this.changed.fire();
  }

  /** The strictest thing that was last found in the turn at hand; `lastFinding` of a status can be of an earlier one. */
  finding({ sessionId, turnId }: SessionStatus): Finding | undefined {
    const loop = this.loops.get(sessionId);
    return loop?.turnId === turnId ? loop?.verdict.findings[0] : undefined;
  }

  /**
   * The daemon is gone, and its counts with it. A session comes back when something happens in it; one that waits for
   * an answer stays, with what it asks about.
   */
  forget(): void {
    for (const id of [...this.statuses.keys(), ...this.loops.keys()]) {
      if (this.controls.isHalted(id)) continue;
      this.statuses.delete(id);
      this.loops.delete(id);
    }
    this.changed.fire();
  }

  /** Whether the guard answers, as far as is known. */
  guarded(isGuarded: boolean): void {
    if (isGuarded === this.isGuarded) return;
    this.isGuarded = isGuarded;
    this.changed.fire();
  }

  status(id: string): SessionStatus | undefined {
    return this.statuses.get(id);
  }

  phase(status: SessionStatus): Phase {
    const { sessionId } = status;
    const turn = {
      isHalted: this.controls.isHalted(sessionId),
      goesOn: this.controls.goesOn(sessionId),
      isGuarded: this.isGuarded,
    };
    return phaseOf(status, turn, this.finding(status));
  }

  /** The newest first. */
  list(): SessionStatus[] {
    return [...this.statuses.values()].reverse();
  }

  /** Those that wait for an answer. */
  halted(): string[] {
    return this.controls.halted();
  }

  /** The one that waits for an answer, else the one that something happened in last. */
  urgent(): SessionStatus | undefined {
    return this.statuses.get(this.halted().at(-1) ?? this.latest);
  }

  /** The one that something happened in last. */
  active(): SessionStatus | undefined {
    return this.statuses.get(this.latest);
  }
}
