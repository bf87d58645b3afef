/** What a halt rests on, line by line. */

import { shown, times } from './names.js';
import type { Cap, Finding } from './protocol.js';
import { propertyOf } from './settings.js';
import type { Repeated } from './trail.js';

/** A line below a session: what it is about, and what there is to say of it. `setting`: the one that helps, as the daemon calls it. */
export interface Line {
  label: string;
  detail: string;
  setting?: string;
}

/**
 * What a finding rests on: which call, how often, where, by which rule; the first line says most. `setBy`: who gave the
 * session that setting, where it was not the person.
 */
export function evidence(finding: Finding, repeated: Repeated | undefined, setBy?: string): Line[] {
  const { guard, loopType, reason, tool, count, threshold, setting } = finding;
  const lines: Line[] = [];
  if (repeated !== undefined)
    lines.push(
      { label: times(repeated.tool, repeated.at.length), detail: '' },
      { label: 'At calls', detail: places(repeated.at) },
    );
  else if (tool !== undefined) lines.push({ label: shown(tool), detail: '' });
  lines.push({ label: `${count} ${counted(finding)}`, detail: `limit ${threshold}` });
  lines.push({ label: capitalized(loopType), detail: reason?.replaceAll('_', ' ') ?? `${guard} guard` });
  if (setting !== undefined) lines.push(settingLine(setting, setBy));
  return lines;
}

/** Where the session has its own, what the person sets does not help. A narrow tree cuts off the end. */
function settingLine(setting: string, setBy: string | undefined): Line {
  const detail = propertyOf(setting) ?? setting;
  return setBy === undefined ? { label: 'Setting', detail, setting } : { label: `Set by ${setBy}`, detail };
}

export function capInWords(cap: Cap): Line {
  if (cap.value === null) return { label: 'No cap', detail: '' };
  return { label: cap.explicit ? 'Cap' : 'Adaptive cap', detail: `${cap.explicit ? '' : 'from '}${cap.value} calls` };
}

/** What each rule counts, in the plural that follows its count. */
const COUNTED: Readonly<Record<string, string>> = {
  turn_tool_call_cap: 'tool calls',
  global_tool_call_duplicate: 'equal calls',
  invalid_tool_params_stagnation: 'rejected calls',
  consecutive_identical_tool_calls: 'equal calls in a row',
  shell_command_stagnation: 'looks at the repository',
  alternating_tool_call_pattern: 'alternations',
  read_file_loop: 'calls that only read',
  action_stagnation: 'calls of one tool in a row',
  chanting_identical_sentences: 'equal passages',
  repetitive_thoughts: 'equal thoughts',
  repeated_tool_execution_failure: 'failures of one kind',
  generic_repeat: 'equal calls',
  known_poll_no_progress: 'polls without news',
  ping_pong: 'alternating calls',
  unknown_tool_repeat: 'calls of an unknown tool',
  global_circuit_breaker: 'equal results',
  compaction_loop_persisted: 'equal calls after compaction',
  tool_call_budget: 'tool calls in a row',
  max_blocks_per_turn: 'responses with refused calls',
  max_steps_per_turn: 'steps',
};

/** Of the rules that count different things for different reasons. */
const COUNTED_BY_REASON: Readonly<Record<string, string>> = {
  replayed_call_id: 'times under one id',
  'no_new_evidence call': 'equal results',
  'no_new_evidence edit': 'equal edits',
  'no_new_evidence error': 'equal errors',
  'no_new_evidence final': 'final answers',
  'no_new_evidence blind': 'equal calls in a row',
};

function counted({ loopType, reason = '' }: Finding): string {
  return COUNTED_BY_REASON[reason] ?? COUNTED_BY_REASON[`${loopType} ${reason}`] ?? COUNTED[loopType] ?? 'counted';
}

function capitalized(name: string): string {
  return name.charAt(0).toUpperCase() + name.slice(1).replaceAll('_', ' ');
}

const MAX_PLACES = 12;

function places(at: readonly number[]): string {
  const first = at.slice(0, MAX_PLACES).join(', ');
  return at.length > MAX_PLACES ? `${first}, and ${at.length - MAX_PLACES} more` : first;
}
