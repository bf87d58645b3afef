/**
 * What the person can do with turns that run: stop them, raise their cap, let them go on after a halt.
 *
 * A halt is one question, which a notification, the tree and the menu may all answer; the first answer counts.
 */

import type { Decision } from './loop.js';
import type { Verdict } from './protocol.js';
import type { Session } from './session.js';

export interface Halt {
  /** Of this window's halts, which one. */
  id: number;
  verdict: Verdict;
  decided: Promise<Decision>;
  /** False, and of no effect, once the halt is decided: a notification that is left open does no harm. */
  answer(decision: Decision): boolean;
}

interface Running {
  session: Session;
  abort: AbortController;
  halt?: Halt | undefined;
  /** The person wants it to end. */
  isStopping: boolean;
}

export class Controls {
  private readonly running = new Map<string, Running>();
  private halts = 0;

  /** Told when a halt begins to wait for an answer, and when it has one. */
  onChange: () => void = () => undefined;

  /** A turn begins; `signal` is aborted when the person stops it. */
  begin(session: Session): AbortController {
    const abort = new AbortController();
    const running: Running = { session, abort, isStopping: false };
    this.running.set(session.id, running);
    abort.signal.addEventListener('abort', () => {
      running.isStopping = true;
      this.answer(session.id, { action: 'stop' });
    });
    return abort;
  }

  end(session: Session): void {
    this.running.delete(session.id);
    this.onChange();
  }

  isRunning(sessionId: string): boolean {
    return this.running.has(sessionId);
  }

  /** Whether a turn of the session runs that is to go on: it is neither halted nor about to end. */
  goesOn(sessionId: string): boolean {
    const running = this.running.get(sessionId);
    return running !== undefined && running.halt === undefined && !running.isStopping;
  }

  /** Whether a halt of the session waits for an answer; with `id`, whether that one does. */
  isHalted(sessionId: string, id?: number): boolean {
    const halt = this.running.get(sessionId)?.halt;
    return halt !== undefined && (id === undefined || halt.id === id);
  }

  /** The halt of a session that waits for an answer. */
  haltOf(sessionId: string): Halt | undefined {
    return this.running.get(sessionId)?.halt;
  }

  /** The sessions that wait for an answer. */
  halted(): string[] {
    return [...this.running.values()].filter(({ halt }) => halt !== undefined).map(({ session }) => session.id);
  }

  /** A halt, to be answered anywhere. */
  halt(session: Session, verdict: Verdict): Halt {
    const running = this.running.get(session.id);
    if (running === undefined) throw new Error(`no turn of ${session.id} runs`);
    const { promise: decided, resolve } = promiseOf<Decision>();
    const halt: Halt = {
      id: (this.halts += 1),
      verdict,
      decided,
      answer: (decision) => {
        if (running.halt !== halt) return false;
        running.halt = undefined;
        running.isStopping ||= decision.action === 'stop';
        resolve(decision);
        this.onChange();
        return true;
      },
    };
    running.halt = halt;
    this.onChange();
    return halt;
  }

  /** Answers the halt of a session; false if there is none. */
  private answer(sessionId: string, decision: Decision): boolean {
    return this.running.get(sessionId)?.halt?.answer(decision) ?? false;
  }

  /** Ends the turn that runs, halted or not; false if none does. */
  stop(sessionId: string): boolean {
    if (!this.isRunning(sessionId)) return false;
    if (!this.answer(sessionId, { action: 'stop' })) this.running.get(sessionId)?.abort.abort();
    return true;
  }

  continueOnce(sessionId: string): void {
    this.answer(sessionId, { action: 'continueOnce' });
  }

  /** Of a turn that is halted or runs. */
  async raiseCap(sessionId: string, calls?: number): Promise<void> {
    if (this.answer(sessionId, { action: 'raiseCap', ...(calls === undefined ? {} : { calls }) })) return;
    await this.running.get(sessionId)?.session.override('raiseCap', calls);
  }
}

function promiseOf<T>(): { promise: Promise<T>; resolve: (value: T) => void } {
  let resolve: (value: T) => void = () => undefined;
  const promise = new Promise<T>((done) => (resolve = done));
  return { promise, resolve };
}
