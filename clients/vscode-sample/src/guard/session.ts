/**
 * One conversation with an agent, for as long as the person has it: a daemon that was restarted is told of it again.
 *
 * To the daemon the id of a call is new in the whole session, and a call that was answered is not admitted again. The
 * ids of a model that begins anew in each turn are new in the turn only, so each turn puts a mark of its own before
 * them. Nothing that the daemon answers has ids of calls in it: admitted calls are told by their places in the batch.
 */

import { randomUUID } from 'node:crypto';
import { Ended, type Connection } from './connection.js';
import type { Guard } from './guard.js';
import type { Event, NextStep, OpenSession, Override, Verdict } from './protocol.js';
import { Trail } from './trail.js';

const SESSION_NOT_FOUND = -32004;

export interface SessionOptions extends OpenSession {
  sessionId: string;
}

export class Session {
  readonly options: SessionOptions;
  readonly trail = new Trail();
  turnId: string | undefined;
  private readonly guard: Guard;
  /** What stands before the ids of the turn at hand. */
  private mark = newMark();
  /** The daemon that knows of this session. */
  private openedAt: Connection | undefined;
  /** That daemon was not told of the turn that runs. */
  private isLost = false;

  constructor(guard: Guard, options: SessionOptions) {
    this.guard = guard;
    this.options = options;
  }

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
    const marked = told.map((event) => this.marked(event));
    return this.orNothing(() => this.guard.ask('turnguard/record', { sessionId: this.id, events: marked }));
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
      (error: Error) => this.guard.withoutAnswer(error.message, error instanceof Ended ? 'silent' : 'refused'),
    );
    return true;
  }

  /** The event with ids that are new in the session. */
  private marked(event: Event): Event {
    const withMark = <T extends { id?: string | null }>(each: T): T =>
      each.id === undefined || each.id === null ? each : { ...each, id: `${this.mark}${each.id}` };
    if (event.type === 'turnStarted') this.mark = newMark();
    if (event.type === 'toolCalls') return { ...event, calls: event.calls.map(withMark) };
    if (event.type === 'toolResults') return { ...event, results: event.results.map(withMark) };
    return event.type === 'callRekeyed' ? withMark(event) : event;
  }

  /** An error of the daemon does not stop the agent either. */
  private async orNothing<T>(ask: () => Promise<T | undefined>): Promise<T | undefined> {
    try {
      return await ask();
    } catch (error) {
      if ((error as { code?: number }).code === SESSION_NOT_FOUND) this.openedAt = undefined;
      this.guard.withoutAnswer(error instanceof Error ? error.message : String(error), 'refused');
      return undefined;
    }
  }
}

/** Random: another `Session` may have had the same conversation before. */
function newMark(): string {
  return `${randomUUID().slice(0, 8)}-`;
}

function callsOf(event: Event): { name: string; args: unknown }[] {
  return event.type === 'toolCalls' ? event.calls.map(({ name, args }) => ({ name: name ?? '', args })) : [];
}
