/**
 * Keeps a daemon running, and lets a caller wait for it only while it starts, if that wants to.
 *
 * A daemon that ends is started again, each time after a longer pause; one that ends again and again is given up. A
 * question that is not answered within `PATIENCE_MS` is answered with undefined: the agent goes on without the guard,
 * and `unguarded` says so, once until there is an answer again.
 */

import { setTimeout as pause } from 'node:timers/promises';
import { Connection, Ended, NotStarted, Unusable, type Listener } from './connection.js';
import type { Methods, Settings } from './protocol.js';

/** docs/protocol.md: if a verdict does not come within 250 ms, let the batch run and tell the person once. */
export const PATIENCE_MS = 250;

/** How long a turn may be kept from beginning by a daemon that starts: a start takes less than 1 s, on a busy machine more. */
export const STARTS_WITHIN_MS = 5_000;

/** A daemon that owes an answer for so long hangs, and is replaced. */
const HANGS_AFTER_MS = 10_000;

const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 30_000;
/** So many ends in a row, and it is not started again by itself. */
const GIVE_UP_AFTER = 5;
/** Who ran for so long has started well. */
const STEADY_MS = 60_000;

export type GuardState =
  | { kind: 'stopped' }
  | { kind: 'starting' }
  | { kind: 'ready'; version: string }
  | { kind: 'waiting'; why: string; pauseMs: number }
  | { kind: 'failed'; why: string };

/** `silent`: there is no daemon, or it does not answer; that may pass by itself. `refused`: it answered with an error. */
export type UnguardedCause = 'silent' | 'refused';

export interface GuardOptions extends Listener {
  /** The command line of the daemon, found anew for each start. A rejection is final until `restart`. */
  command(): Promise<readonly string[]>;
  settings(): Settings;
  state?(state: GuardState): void;
  /** What to say of a program that is no use, and what to do about it; else its own words are taken. */
  unusable?(error: Unusable): string;
  /** Calls run without the guard, and why. Said once, until `guardedAgain`. */
  unguarded?(why: string, cause: UnguardedCause): void;
  /** There was an answer again. */
  guardedAgain?(): void;
  /** How long a verdict is waited for. */
  patienceMs?: number;
  firstPauseMs?: number;
  hangsAfterMs?: number;
  startMs?: number;
}

export class Guard {
  readonly options: GuardOptions;
  state: GuardState = { kind: 'stopped' };
  /** The daemon that answers now. */
  connection: Connection | undefined;
  private running: { abort: AbortController; done: Promise<void> } | undefined;
  private stopping: Promise<void> | undefined;
  /** What ends the waits for a daemon that starts. */
  private readonly awaited = new Set<() => void>();
  /** Requests that were given up on and are not answered yet. */
  private late = 0;
  private toldUnguarded = false;

  /** What the daemon that ended last wrote to stderr last. */
  private lastWords = '';

  constructor(options: GuardOptions) {
    this.options = options;
  }

  /** Returns at once; `ready` waits. */
  start(): void {
    if (this.running !== undefined) return;
    const abort = new AbortController();
    this.running = { abort, done: this.keepRunning(abort.signal) };
  }

  /** Waits while the daemon starts, `ms` at most, and not for one that is started again after a pause. Whether there is one. */
  async ready(ms = STARTS_WITHIN_MS, signal?: AbortSignal): Promise<boolean> {
    if (this.state.kind === 'starting' && signal?.aborted !== true) {
      const wait = new AbortController();
      const end = () => wait.abort();
      this.awaited.add(end);
      signal?.addEventListener('abort', end);
      await pause(ms, undefined, { signal: wait.signal }).catch(() => undefined);
      signal?.removeEventListener('abort', end);
      this.awaited.delete(end);
    }
    return this.connection !== undefined;
  }

  stop(): Promise<void> {
    this.stopping ??= this.stopRunning().finally(() => (this.stopping = undefined));
    return this.stopping;
  }

  async restart(): Promise<void> {
    await this.stop();
    this.start();
  }

  private async stopRunning(): Promise<void> {
    const running = this.running;
    this.running = undefined;
    running?.abort.abort();
    await this.connection?.close();
    await running?.done;
  }

  /** Sends the settings anew, after a change of them. A daemon that is ending needs none: the next one gets them. */
  async configure(): Promise<void> {
    await this.connection?.configure(this.options.settings()).catch((error: unknown) => {
      if (!(error instanceof Ended)) throw error;
    });
  }

  /**
   * Asks, and waits `PATIENCE_MS` at most; not at all while an earlier answer is late, so that a silent daemon costs an
   * agent that time once. What is asked is sent all the same: a daemon that comes back has missed nothing.
   * Undefined: no answer. Rejects with the daemon's error.
   */
  async ask<M extends keyof Methods>(
    method: M,
    params: Methods[M]['params'],
  ): Promise<Methods[M]['result'] | undefined> {
    const connection = this.connection;
    if (connection === undefined) {
      this.withoutAnswer(whyNot(this.state), 'silent');
      return undefined;
    }
    const answer = this.answerOf(connection, method, params);
    const result = await within(answer, this.late === 0 ? (this.options.patienceMs ?? PATIENCE_MS) : 0);
    if (result === NONE) {
      this.late += 1;
      void answer.catch(() => undefined).then(() => (this.late -= 1));
      this.withoutAnswer('it does not answer', 'silent');
      return undefined;
    }
    if (this.toldUnguarded) {
      this.toldUnguarded = false;
      this.options.guardedAgain?.();
    }
    return result;
  }

  /** Says that calls run without the guard, unless that was said since the last answer. */
  withoutAnswer(reason: string, cause: UnguardedCause): void {
    if (this.toldUnguarded) return;
    this.toldUnguarded = true;
    this.options.unguarded?.(reason, cause);
  }

  /** The answer, whenever it comes; `NONE` if the daemon ends first, which one that hangs is made to. */
  private async answerOf<M extends keyof Methods>(
    connection: Connection,
    method: M,
    params: Methods[M]['params'],
  ): Promise<Methods[M]['result'] | typeof NONE> {
    const hangsAfterMs = this.options.hangsAfterMs ?? HANGS_AFTER_MS;
    const hangs = setTimeout(() => {
      this.options.log?.(`no answer to ${method} for ${hangsAfterMs / 1000} s`);
      connection.kill();
    }, hangsAfterMs);
    try {
      return await connection.request(method, params);
    } catch (error) {
      if (error instanceof Ended) return NONE;
      throw error;
    } finally {
      clearTimeout(hangs);
    }
  }

  private async keepRunning(signal: AbortSignal): Promise<void> {
    for (let ends = 0; !signal.aborted;) {
      const begun = Date.now();
      let reason: string;
      try {
        reason = await this.runOnce(signal);
      } catch (error) {
        reason = error instanceof Error ? error.message : String(error);
        if (error instanceof Unusable) reason = this.options.unusable?.(error) ?? reason;
        if (error instanceof Ended) this.lastWords = error.lastWords;
        if (!signal.aborted && FINAL.some((kind) => error instanceof kind)) {
          this.become({ kind: 'failed', why: reason });
          return;
        }
      }
      if (signal.aborted) break;
      ends = Date.now() - begun > STEADY_MS ? 1 : ends + 1;
      if (ends >= GIVE_UP_AFTER) {
        const words = this.lastWords === '' ? '' : `. Its last words: ${this.lastWords}`;
        this.become({ kind: 'failed', why: `${reason}, ${ends} times in a row${words}` });
        return;
      }
      const pauseMs = Math.min((this.options.firstPauseMs ?? FIRST_PAUSE_MS) * 2 ** (ends - 1), LONGEST_PAUSE_MS);
      this.become({ kind: 'waiting', why: reason, pauseMs });
      await pause(pauseMs, undefined, { signal }).catch(() => undefined);
    }
    this.become({ kind: 'stopped' });
  }

  /** From the start of a daemon to its end; says why it ended. */
  private async runOnce(signal: AbortSignal): Promise<string> {
    this.become({ kind: 'starting' });
    this.lastWords = '';
    const command = await this.options.command().catch((error: unknown) => {
      throw new NotFound(error instanceof Error ? error.message : String(error));
    });
    this.options.log?.(`starting: ${command.join(' ')}`);
    const connection = await Connection.start(command, this.options, signal, this.options.startMs);
    this.options.log?.(`turnguard ${connection.version}, process ${connection.pid ?? '?'}`);
    await connection.configure(this.options.settings());
    this.connection = connection;
    this.become({ kind: 'ready', version: connection.version });
    const reason = await connection.ended;
    this.connection = undefined;
    this.lastWords = connection.lastWords;
    this.options.log?.(`the daemon ${reason}`);
    return `it ${reason}`;
  }

  private become(state: GuardState): void {
    this.state = state;
    if (state.kind !== 'starting') for (const end of this.awaited) end();
    this.options.state?.(state);
  }
}

const NONE = Symbol('no answer');

async function within<T>(answer: Promise<T>, ms: number): Promise<T | typeof NONE> {
  const timer = new AbortController();
  try {
    return await Promise.race([answer, pause(ms, NONE, { signal: timer.signal })]);
  } finally {
    timer.abort();
  }
}

class NotFound extends Error {}

/** What the next start would meet again. */
const FINAL = [NotFound, NotStarted, Unusable];

function whyNot(state: GuardState): string {
  switch (state.kind) {
    case 'waiting':
    case 'failed':
      return state.why;
    case 'starting':
    case 'ready':
      return 'it is still starting';
    case 'stopped':
      return 'it does not run';
  }
}
