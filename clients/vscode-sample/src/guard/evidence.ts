/** What a halt rests on, line by line. */

import { shown, times } from './names.js';
import type { Cap, Finding } from './protocol.js';
import type { Repeated } from './trail.js';

/** A line below a session: what it is about, and what there is to say of it. `setting`: the one that it names. */
export interface Line {
  label: string;
  detail: string;
  setting?: string;
}

/** What a finding rests on: which call, how often, where, by which rule; the first line says most. */
export function evidence(finding: Finding, repeated: Repeated | undefined): Line[] {
  const { guard, loopType, reason, tool, count, threshold, setting } = finding;
  const lines: Line[] = [];
  if (repeated !== undefined)
    lines.push(
      { label: times(repeated.tool, repeated.at.length), detail: '' },
      { label: 'At calls', detail: places(repeated.at) },
    );
  else if (tool !== undefined) lines.push({ label: shown(tool), detail: '' });
  lines.push({ label: `${count} counted`, detail: `limit ${threshold}` });
  lines.push({ label: capitalized(loopType), detail: reason?.replaceAll('_', ' ') ?? `${guard} guard` });
  if (setting !== undefined) lines.push({ label: 'Setting', detail: setting, setting });
  return lines;
}

export function capInWords(cap: Cap): Line {
  if (cap.value === null) return { label: 'No cap', detail: '' };
  return { label: cap.explicit ? 'Cap' : 'Adaptive cap', detail: `${cap.explicit ? '' : 'from '}${cap.value} calls` };
}

function capitalized(name: string): string {
  return name.charAt(0).toUpperCase() + name.slice(1).replaceAll('_', ' ');
}

const MAX_PLACES = 12;

function places(at: readonly number[]): string {
  const first = at.slice(0, MAX_PLACES).join(', ');
  return at.length > MAX_PLACES ? `${first}, and ${at.length - MAX_PLACES} more` : first;
}
