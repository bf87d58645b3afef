/** One conversation with an agent, for as long as the person has it: a daemon that was restarted is told of it again. */

import type { Connection } from './connection.js';
import type { Guard } from './guard.js';
import type { Event, NextStep, OpenSession, Override, Verdict } from './protocol.js';
import { Trail } from './trail.js';

const SESSION_NOT_FOUND = -32004;

export interface SessionOptions extends OpenSession {
  sessionId: string;
}

export class Session {
  readonly trail = new Trail();
  turnId: string | undefined;
  /** The daemon that knows of this session. */
  private openedAt: Connection | undefined;
  /** That daemon was not told of the turn that runs. */
  private isLost = false;

  constructor(
    private readonly guard: Guard,
    readonly options: SessionOptions,
  ) {}

  get id(): string {
    return this.options.sessionId;
  }

  /** Waits for a daemon that is starting: a start is no fault, and the turn after it should be guarded. */
  async ready(signal: AbortSignal): Promise<void> {
    await this.guard.ready(undefined, signal);
  }

  /** Tells what happened. Undefined: the guard did not say anything, and everything may run. */
  async record(events: Event[]): Promise<Verdict | undefined> {
    const started = events.find((event) => event.type === 'turnStarted');
    if (started !== undefined) this.turnId = started.turnId ?? undefined;
    // What is told now is the first that the daemon counts.
    if (this.open()) this.trail.add(events.flatMap(callsOf));
    // A daemon that begins anew in the middle of a turn should call it by its name.
    const told: Event[] =
      this.isLost && started === undefined ? [{ type: 'turnStarted', turnId: this.turnId ?? null }, ...events] : events;
    this.isLost = false;
    return this.orNothing(() => this.guard.ask('turnguard/record', { sessionId: this.id, events: told }));
  }

  /** What the next model request may use. */
  async prepareStep(): Promise<NextStep> {
    this.open();
    const next = await this.orNothing(() => this.guard.ask('turnguard/prepareStep', { sessionId: this.id }));
    return next ?? { toolChoice: 'auto', activeTools: null, state: null };
  }

  /** Gets past a halt of the turn at hand. Where that fails the daemon is gone, and so is its halt. */
  async override(action: Override['action'], calls?: number): Promise<void> {
    const params = { sessionId: this.id, turnId: this.turnId ?? null, action, calls: calls ?? null };
    const status = await this.guard.ask('turnguard/override', params).catch(() => undefined);
    if (status !== undefined) this.guard.options.session?.(status);
  }

  async close(): Promise<void> {
    if (this.openedAt === undefined || this.openedAt !== this.guard.connection) return;
    this.openedAt = undefined;
    await this.orNothing(() => this.guard.ask('turnguard/closeSession', { sessionId: this.id }));
  }

  /**
   * Opens the session where it is not open. Nobody waits for the answer: answers come in the order of the requests, so
   * that of what is asked next says enough.
   */
  private open(): boolean {
    const connection = this.guard.connection;
    if (connection === undefined || connection === this.openedAt) return false;
    this.openedAt = connection;
    this.isLost = this.turnId !== undefined;
    this.trail.begin();
    connection.request('turnguard/openSession', this.options).then(
      (status) => this.guard.options.session?.(status),
      (error: Error) => this.guard.withoutAnswer(error.message),
    );
    return true;
  }

  /** An error of the daemon does not stop the agent either. */
  private async orNothing<T>(ask: () => Promise<T | undefined>): Promise<T | undefined> {
    try {
      return await ask();
    } catch (error) {
      if ((error as { code?: number }).code === SESSION_NOT_FOUND) this.openedAt = undefined;
      this.guard.withoutAnswer(error instanceof Error ? error.message : String(error));
      return undefined;
    }
  }
}

function callsOf(event: Event): { name: string; args: unknown }[] {
  return event.type === 'toolCalls' ? event.calls.map(({ name, args }) => ({ name: name ?? '', args })) : [];
}
