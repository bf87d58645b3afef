/** A verdict in a few words, for a notification. */

import { shown } from './names.js';
import type { Finding, Verdict } from './protocol.js';

const CAP = 'turn_tool_call_cap';

/** Whether a higher cap gets a halted turn on; after a halt of another guard that means the same as to continue once. */
export function isOfCap(verdict: Verdict): boolean {
  return verdict.findings[0]?.loopType === CAP;
}

/** What became of the turn, or in turnguard.shadow would have. */
const FATES: Record<Finding['action'], { real: string; shadow: string }> = {
  allow: { real: 'goes on', shadow: 'goes on' },
  warn: { real: 'was warned', shadow: 'was warned' },
  restrict: { real: 'is held back', shadow: 'would be held back' },
  block: { real: 'had a call refused', shadow: 'would have had a call refused' },
  halt: { real: 'was stopped', shadow: 'would have been stopped' },
};

/**
 * What a verdict says, for a notification: what became of the turn, which call it was, how often. The rule and its
 * setting are in the daemon's own message, and in the evidence.
 */
export function inShort(sessionId: string, verdict: Verdict): string {
  const { action, findings, totals } = verdict;
  const finding = findings[0];
  const { real, shadow } = FATES[finding?.action ?? action];
  const fate = action === 'allow' ? shadow : real;
  const fact = finding === undefined ? '' : factOf(finding, verdict);
  if (fact === '') return `${shown(sessionId)} ${fate}.`;
  const namesNone = !fact.includes('"') && totals.maxKeyRepeat > 1;
  const most = ` Most repeated: "${shown(totals.maxKeyTool ?? 'one call')}", ${totals.maxKeyRepeat} times.`;
  return `${shown(sessionId)} ${fate}: ${fact}.${namesNone ? most : ''}`;
}

function factOf({ loopType, reason, tool, count, threshold }: Finding, verdict: Verdict): string {
  if (loopType === CAP && reason === 'stuck')
    return `"${shown(tool ?? 'one call')}" came ${verdict.totals.maxKeyRepeat} times in ${count} tool calls`;
  if (loopType === CAP) return `it came to ${count} tool calls and may make ${threshold}`;
  // What the model is told begins with the fact. In shadow it is told nothing, and the person first that it is shadow.
  const [first = '', second = ''] = sentences(verdict.modelMessage ?? verdict.userMessage ?? '');
  const fact = (verdict.modelMessage === undefined ? second : first).replace(/^[A-Z][a-z ]+: /, '');
  return fact.charAt(0).toLowerCase() + fact.slice(1);
}

/** The daemon encloses names in `"`, and lets none stand inside: a full stop in a name ends no sentence. */
function sentences(text: string): string[] {
  return [...text.matchAll(/((?:"[^"]*"|[^".]|\.(?! |$))+)\.(?: |$)/g)].map(([, sentence = '']) => sentence);
}
