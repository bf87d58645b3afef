/** Which calls of a turn came again, and where: the evidence of a halt. Holds digests of arguments, not arguments. */

import { createHash } from 'node:crypto';

/** Different calls that are told apart; a turn with more is in no danger of being called repetitive. */
const MAX_CALLS = 20_000;

export interface Repeated {
  tool: string;
  /** The numbers of the calls in the turn, from 1. */
  at: readonly number[];
}

export class Trail {
  private calls = new Map<string, { tool: string; at: number[] }>();
  private count = 0;

  begin(): void {
    this.calls.clear();
    this.count = 0;
  }

  add(calls: readonly { name: string; args: unknown }[]): void {
    for (const { name, args } of calls) {
      this.count += 1;
      const key = createHash('sha256')
        .update(JSON.stringify([name, sorted(args)]))
        .digest('base64');
      const call = this.calls.get(key);
      if (call !== undefined) call.at.push(this.count);
      else if (this.calls.size < MAX_CALLS) this.calls.set(key, { tool: name, at: [this.count] });
    }
  }

  /** The call that came most often, of `tool` if that is given. */
  mostRepeated(tool?: string): Repeated | undefined {
    let most: Repeated | undefined;
    for (const call of this.calls.values()) {
      if (tool !== undefined && call.tool !== tool) continue;
      if (call.at.length > (most?.at.length ?? 1)) most = call;
    }
    return most;
  }
}

/** The same value whatever the order its keys were written in. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (value === null || typeof value !== 'object') return value;
  return Object.entries(value)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, each]) => [key, sorted(each)]);
}
