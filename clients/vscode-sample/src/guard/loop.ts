/**
 * The loop of an agent, guarded: docs/protocol.md, "The loop of a host".
 *
 * All calls of a response are told before any of them runs; those that are admitted run; the others are answered with
 * the guard's message for the model. Results are told before the model is asked again.
 */

import type { Event, Result, Verdict } from './protocol.js';
import type { Session } from './session.js';

export interface ToolCall {
  /** New in the turn; another turn may have it again. */
  id: string;
  name: string;
  args: unknown;
}

/** What the model reads in answer to a call. */
export interface Answer {
  call: ToolCall;
  /** `ran`: the tool's output. `failed`: its error. `refused`: it did not run, and the guard says why. */
  kind: 'ran' | 'failed' | 'refused';
  output: unknown;
  errorType?: string | undefined;
}

export interface ModelRequest {
  toolChoice: 'auto' | 'none';
  /** The tools to offer; null: all. */
  activeTools: readonly string[] | null;
  /** Answers to the calls of the last response, in their order. */
  answers: readonly Answer[];
  /** What the guard has to say to the model besides. */
  notes: readonly string[];
  signal: AbortSignal;
}

/** What a tool that fails may throw, to say how; `errorType` is one of those that docs/protocol.md names. */
export class ToolError extends Error {
  readonly errorType: string;

  constructor(message: string, errorType: string) {
    super(message);
    this.errorType = errorType;
  }
}

export interface ModelResponse {
  text: string;
  calls: readonly ToolCall[];
}

/** What the person wants after a halt. */
export type Decision = { action: 'stop' } | { action: 'continueOnce' } | { action: 'raiseCap'; calls?: number };

export interface Agent {
  ask(request: ModelRequest): Promise<ModelResponse>;
  /** Gives the tool's output, or throws. */
  invoke(call: ToolCall, signal: AbortSignal): Promise<unknown>;
  /** The turn is halted: what now? */
  decide(verdict: Verdict, signal: AbortSignal): Promise<Decision>;
  /** Something for the person, each thing once; `verdict` where it is what the guard says of a turn that goes on. */
  tell?(message: string, verdict?: Verdict): void;
}

export type Outcome = 'completed' | 'stopped' | 'cancelled';

/** Plays one turn. Rejects when the model does; the guard makes nothing fail. */
export async function runTurn(session: Session, agent: Agent, turnId: string, signal: AbortSignal): Promise<Outcome> {
  const turn = new Turn(session, agent, signal);
  let outcome: 'completed' | 'cancelled' | 'failed' = 'failed';
  try {
    const ended = await turn.play(turnId);
    outcome = ended === 'completed' ? 'completed' : 'cancelled';
    return ended;
  } finally {
    await session.record([{ type: 'turnEnded', outcome }]);
  }
}

class Turn {
  private readonly session: Session;
  private readonly agent: Agent;
  private readonly signal: AbortSignal;
  private notes: string[] = [];

  constructor(session: Session, agent: Agent, signal: AbortSignal) {
    this.session = session;
    this.agent = agent;
    this.signal = signal;
  }

  async play(turnId: string): Promise<Outcome> {
    this.session.trail.begin();
    await this.session.ready(this.signal);
    await this.record([{ type: 'turnStarted', turnId }], []);
    let answers: readonly Answer[] = [];
    for (;;) {
      const { toolChoice, activeTools } = await this.session.prepareStep();
      if (this.signal.aborted) return 'cancelled';
      const notes = this.notes.splice(0);
      const response = await this.agent.ask({ toolChoice, activeTools, answers, notes, signal: this.signal });
      if (this.signal.aborted) return 'cancelled';

      this.session.trail.add(response.calls);
      const verdict = await this.record(eventsOf(response), response.calls);
      if (verdict === STOP) return this.signal.aborted ? 'cancelled' : 'stopped';
      if (response.calls.length === 0) return 'completed';

      answers = await this.answer(response.calls, verdict);
      if (this.signal.aborted) return 'cancelled';
      const results = answers.filter((each) => each.kind !== 'refused').map(resultOf);
      const after = await this.record([{ type: 'toolResults', results }, { type: 'stepFinished' }], []);
      if (after === STOP) return this.signal.aborted ? 'cancelled' : 'stopped';
    }
  }

  /** Tells events; after a halt asks the person, and tells the calls again if the turn may go on. */
  private async record(events: Event[], calls: readonly ToolCall[]): Promise<Verdict | undefined | typeof STOP> {
    let verdict = await this.session.record(events);
    for (const notice of verdict?.notices ?? []) this.agent.tell?.(notice);
    while (verdict?.action === 'halt') {
      const decision = await this.agent.decide(verdict, this.signal);
      if (decision.action === 'stop' || this.signal.aborted) return STOP;
      await this.session.override(decision.action, decision.action === 'raiseCap' ? decision.calls : undefined);
      if (calls.length === 0) return undefined;
      verdict = await this.session.record([toolCalls(calls)]);
    }
    if (verdict !== undefined) this.passOn(verdict, calls.length);
    return verdict;
  }

  /** News go to the person, and to the model with its next request, unless it reads them in the answer of a call. */
  private passOn(verdict: Verdict, asked: number): void {
    if (verdict.findings[0]?.fresh === false) return;
    if (verdict.userMessage !== undefined) this.agent.tell?.(verdict.userMessage, verdict);
    const isAnswered = verdict.admitted.length < asked;
    if (verdict.modelMessage !== undefined && !isAnswered) this.notes.push(verdict.modelMessage);
  }

  private async answer(calls: readonly ToolCall[], verdict: Verdict | undefined): Promise<Answer[]> {
    const answers: Answer[] = [];
    const answered = new Set<string>();
    for (const [index, call] of calls.entries()) {
      const isCopy = answered.has(call.id);
      answered.add(call.id);
      if (verdict === undefined ? !isCopy : verdict.admitted.includes(index)) {
        if (this.signal.aborted) break;
        answers.push(await this.invoke(call));
      } else if (!isCopy) {
        answers.push({ call, kind: 'refused', output: verdict?.modelMessage ?? '' });
      }
    }
    return answers;
  }

  private async invoke(call: ToolCall): Promise<Answer> {
    try {
      return { call, kind: 'ran', output: await this.agent.invoke(call, this.signal) };
    } catch (error) {
      const errorType = error instanceof ToolError ? error.errorType : undefined;
      return { call, kind: 'failed', output: error instanceof Error ? error.message : String(error), errorType };
    }
  }
}

const STOP = Symbol('the person stopped the turn');

function eventsOf({ text, calls }: ModelResponse): Event[] {
  const events: Event[] = text === '' ? [] : [{ type: 'text', delta: text }];
  return calls.length === 0 ? events : [...events, toolCalls(calls)];
}

function toolCalls(calls: readonly ToolCall[]): Event {
  return { type: 'toolCalls', calls: calls.map(({ id, name, args }) => ({ id, name, args })) };
}

function resultOf({ call, kind, output, errorType }: Answer): Result {
  if (kind === 'ran') return { id: call.id, output, ok: true };
  return { id: call.id, error: output, errorType: errorType ?? null, ok: false };
}
