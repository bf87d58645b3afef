/** A made-up agent that asks for the same file again and again: to see what a halt looks like. No tool is called. */

import { setTimeout as pause } from 'node:timers/promises';
import type { Turns, WindowAgent } from './turns';

const CAP = 5;
const STEPS = 20;
const STEP_MS = 700;

export async function runDemo(turns: Turns): Promise<void> {
  const session = turns.session({
    sessionId: 'demo',
    agentId: 'demo',
    settings: { model: { maxToolCallsPerTurn: CAP } },
  });
  let step = 0;
  const agent: WindowAgent = {
    ask: async ({ signal }) => {
      await pause(STEP_MS, undefined, { signal }).catch(() => undefined);
      step += 1;
      if (step > STEPS) return { text: 'I have read it.', calls: [] };
      const read = (id: string, path: string) => ({ id: `${id}${step}`, name: 'read_file', args: { path } });
      return { text: '', calls: [read('a', 'src/app.ts'), read('b', `src/page${step}.ts`)] };
    },
    invoke: () => Promise.resolve('export {};'),
  };
  await turns.run(session, agent);
}
