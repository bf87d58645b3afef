/** How the guard and its sessions are, in the fewest words. */

import type { GuardState } from './guard.js';
import { shown, times } from './names.js';
import type { Finding, SessionStatus } from './protocol.js';

export type Severity = 'none' | 'warning' | 'error';

/** How the guard is; `unguarded`: it is there, and calls run without it all the same. */
export type Condition = GuardState['kind'] | 'unguarded';

/** `unguarded`: why calls run without the guard, if they do. */
export function conditionOf(state: GuardState, unguarded: string | undefined): Condition {
  return state.kind === 'ready' && unguarded !== undefined ? 'unguarded' : state.kind;
}

/** The word for each, which is the same wherever it is shown. */
export const CONDITIONS: Readonly<Record<Condition, { word: string; icon: string; severity: Severity }>> = {
  ready: { word: 'ready', icon: 'shield', severity: 'none' },
  starting: { word: 'starting', icon: 'loading~spin', severity: 'none' },
  waiting: { word: 'restarting', icon: 'warning', severity: 'warning' },
  failed: { word: 'not running', icon: 'error', severity: 'error' },
  stopped: { word: 'stopped', icon: 'circle-slash', severity: 'none' },
  unguarded: { word: 'not guarding', icon: 'warning', severity: 'warning' },
};

export interface Words {
  /** With `$(icon)` of VS Code. */
  text: string;
  /** The same for who does not see it. */
  spoken: string;
  severity: Severity;
}

/**
 * How a session is for the person: `halted` waits for an answer, `stopped` had one, `repeats` runs and was warned;
 * `waiting` goes on, and the guard has not heard of that yet; `unguarded` goes on without it.
 */
export type Phase = 'halted' | 'running' | 'repeats' | 'waiting' | 'unguarded' | 'stopped' | 'idle' | 'disabled';

/** How the turn is, which a daemon that is late does not know. */
export interface TurnNow {
  /** It waits for the person. */
  isHalted: boolean;
  /** It runs, and is to go on. */
  goesOn: boolean;
  /** The guard answers. */
  isGuarded: boolean;
}

/** `finding`: of the turn at hand. */
export function phaseOf({ state }: SessionStatus, turn: TurnNow, finding: Finding | undefined): Phase {
  if (turn.isHalted) return 'halted';
  if (turn.goesOn && !turn.isGuarded) return 'unguarded';
  if (turn.goesOn && state === 'halted') return 'waiting';
  if (state === 'running' && finding !== undefined) return 'repeats';
  return state === 'halted' ? 'stopped' : state;
}

/** The status bar: the guard, or where it is well, the session that matters now. `halted`: how many wait for an answer. */
export function statusBar(
  state: GuardState,
  unguarded: string | undefined,
  session: { status: SessionStatus; phase: Phase } | undefined,
  halted = 0,
): Words {
  const condition = conditionOf(state, unguarded);
  if (condition !== 'ready' || session === undefined) {
    const { word, icon, severity } = CONDITIONS[condition];
    const why = 'why' in state ? state.why : unguarded;
    const spoken = `turnguard is ${word}${why === undefined ? '' : `: ${why}`}`;
    return { text: `$(${icon}) turnguard: ${word}`, spoken, severity };
  }
  if (halted > 1)
    return { text: `$(stop-circle) ${halted} halted`, spoken: `turnguard halted ${halted} turns`, severity: 'error' };
  const { status, phase } = session;
  const used = calls(status);
  if (phase === 'halted')
    return {
      text: `$(stop-circle) ${used} halted`,
      spoken: `turnguard halted the turn at ${used} calls`,
      severity: 'error',
    };
  if (phase === 'stopped')
    return { text: `$(shield) ${used} stopped`, spoken: `the turn was stopped at ${used} calls`, severity: 'none' };
  if (phase === 'waiting')
    return { text: `$(shield) ${used} waiting`, spoken: `the turn goes on after ${used} calls`, severity: 'none' };
  if (phase === 'repeats')
    return { text: `$(shield) ${used} repeats`, spoken: `the turn repeats itself, ${used} calls`, severity: 'warning' };
  return { text: `$(shield) ${used}`, spoken: `${used} tool calls`, severity: 'none' };
}

/** `4/5`; `4/~100` where no cap was set and the adaptive one holds; `4` where there is none. */
export function calls({ totals, cap }: SessionStatus): string {
  return cap.value === null ? `${totals.toolCalls}` : `${totals.toolCalls}/${cap.explicit ? '' : '~'}${cap.value}`;
}

/** One session in the tree: phase, calls, the repeated call, turn; a narrow tree cuts off the end. */
export function sessionInWords(status: SessionStatus, phase: Phase): string {
  const { maxKeyRepeat, maxKeyTool } = status.totals;
  const used = calls(status);
  const parts: string[] = [phase, `${used} ${used === '1' ? 'call' : 'calls'}`];
  if (maxKeyRepeat > 1) parts.push(times(maxKeyTool, maxKeyRepeat));
  if (status.turnId !== undefined) parts.push(`turn ${shown(status.turnId)}`);
  return parts.join(' · ');
}
