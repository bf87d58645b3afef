/** What the person reads, in the fewest words. */

import type { GuardState } from './guard';
import type { Cap, Finding, SessionStatus } from './protocol';
import type { Repeated } from './trail';

/** A name that a model made up: without what could break out of its line, or turn it around. */
export function shown(name: string): string {
  return name.replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, '').slice(0, 80);
}

export type Severity = 'none' | 'warning' | 'error';

export interface Words {
  /** With `$(icon)` of VS Code. */
  text: string;
  /** The same for who does not see it. */
  spoken: string;
  severity: Severity;
}

/** How a session is for the person: `halted` waits for an answer, `stopped` had one. */
export type Phase = 'halted' | 'running' | 'stopped' | 'idle' | 'disabled';

export function phaseOf({ state }: SessionStatus, isHalted: boolean): Phase {
  if (isHalted) return 'halted';
  return state === 'halted' ? 'stopped' : state;
}

/** The status bar: the guard, or where it is well, the session that matters now. */
export function statusBar(
  state: GuardState,
  unguarded: string | undefined,
  session: { status: SessionStatus; phase: Phase; finding: Finding | undefined } | undefined,
): Words {
  switch (state.kind) {
    case 'failed':
      return {
        text: '$(error) turnguard: not running',
        spoken: `turnguard does not run: ${state.why}`,
        severity: 'error',
      };
    case 'waiting':
      return {
        text: '$(warning) turnguard: restarting',
        spoken: `turnguard is started again: ${state.why}`,
        severity: 'warning',
      };
    case 'starting':
      return { text: '$(loading~spin) turnguard: starting', spoken: 'turnguard is starting', severity: 'none' };
    case 'stopped':
      return { text: '$(circle-slash) turnguard: stopped', spoken: 'turnguard is stopped', severity: 'none' };
    case 'ready':
  }
  if (unguarded !== undefined)
    return {
      text: '$(warning) turnguard: no answer',
      spoken: `calls run without turnguard: ${unguarded}`,
      severity: 'warning',
    };
  if (session === undefined)
    return { text: '$(shield) turnguard: ready', spoken: 'turnguard is ready', severity: 'none' };
  const { status, phase, finding } = session;
  const used = calls(status);
  if (phase === 'halted')
    return {
      text: `$(stop-circle) ${used} halted`,
      spoken: `turnguard halted the turn at ${used} calls`,
      severity: 'error',
    };
  if (phase === 'stopped')
    return { text: `$(shield) ${used} stopped`, spoken: `the turn was stopped at ${used} calls`, severity: 'none' };
  if (phase === 'running' && finding !== undefined)
    return { text: `$(shield) ${used} repeats`, spoken: `the turn repeats itself, ${used} calls`, severity: 'warning' };
  return { text: `$(shield) ${used}`, spoken: `${used} tool calls`, severity: 'none' };
}

/** `4/5`; `4/~100` where no cap was set and the adaptive one holds; `4` where there is none. */
export function calls({ totals, cap }: SessionStatus): string {
  return cap.value === null ? `${totals.toolCalls}` : `${totals.toolCalls}/${cap.explicit ? '' : '~'}${cap.value}`;
}

export function capInWords(cap: Cap): string {
  if (cap.value === null) return 'No cap';
  return cap.explicit ? `Cap: ${cap.value} calls` : `Adaptive cap, from ${cap.value} calls`;
}

/** One session in the tree: phase, turn, calls, the repeated call; a narrow tree cuts off the end. */
export function sessionInWords(status: SessionStatus, phase: Phase): string {
  const { maxKeyRepeat, maxKeyTool } = status.totals;
  const parts: string[] = [phase];
  if (status.turnId !== undefined) parts.push(`turn ${shown(status.turnId)}`);
  parts.push(`${calls(status)} calls`);
  if (maxKeyRepeat > 1) parts.push(`${shown(maxKeyTool ?? 'one call')} ×${maxKeyRepeat}`);
  return parts.join(' · ');
}

/** What a finding rests on: which call, how often, where. */
export function evidence(finding: Finding, repeated: Repeated | undefined): string[] {
  const reason = finding.reason === undefined ? '' : ` (${finding.reason})`;
  const lines = [
    `${capitalized(finding.action)} by the ${finding.guard} guard`,
    capitalized(`${finding.loopType}${reason}`),
    `${finding.count} counted, ${finding.threshold} allowed`,
  ];
  if (finding.tool !== undefined) lines.push(`Tool: ${shown(finding.tool)}`);
  if (repeated !== undefined)
    lines.push(
      `Most repeated: ${shown(repeated.tool)}, ${repeated.at.length} times`,
      `At calls ${places(repeated.at)}`,
    );
  if (finding.setting !== undefined) lines.push(`Setting: ${finding.setting}`);
  return lines;
}

function capitalized(name: string): string {
  return name.charAt(0).toUpperCase() + name.slice(1).replaceAll('_', ' ');
}

const MAX_PLACES = 12;

function places(at: readonly number[]): string {
  const first = at.slice(0, MAX_PLACES).join(', ');
  return at.length > MAX_PLACES ? `${first}, and ${at.length - MAX_PLACES} more` : first;
}
