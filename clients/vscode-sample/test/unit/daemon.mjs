// What the tests share: the real daemon, and waiting with a deadline.
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Guard, Session } from '../../dist/guard.js';

export const PROGRAM =
  process.env.TURNGUARD ?? fileURLToPath(new URL('../../../../.venv/bin/turnguard', import.meta.url));
export const broken = (name) => fileURLToPath(new URL(`../daemons/${name}.mjs`, import.meta.url));

export async function until(holds, what, ms = 30_000) {
  for (const end = Date.now() + ms; Date.now() < end; await pause(10)) {
    const value = await holds();
    if (value) return value;
  }
  throw new Error(`not within ${ms} ms: ${what}`);
}

/** A guard that is ready, with everything that it told. */
export async function guardOf(t, options = {}) {
  const told = { states: [], unguarded: [], causes: [], again: 0, log: [], sessions: [], messages: [], loops: [] };
  const guard = new Guard({
    command: async () => [PROGRAM, 'serve'],
    settings: () => ({}),
    state: (state) => told.states.push(state),
    unguarded: (why, cause) => {
      told.unguarded.push(why);
      told.causes.push(cause);
    },
    guardedAgain: () => (told.again += 1),
    log: (line) => told.log.push(line),
    session: (status) => told.sessions.push(status),
    message: (text) => told.messages.push(text),
    loop: (loop) => told.loops.push(loop),
    // How a busy machine is waited for is no matter of the tests that are about something else.
    patienceMs: 20_000,
    hangsAfterMs: 60_000,
    ...options,
  });
  t.after(() => guard.stop());
  guard.start();
  if (options.command === undefined) await until(() => guard.state.kind === 'ready', 'ready');
  return { guard, told };
}

let sessions = 0;

export function sessionOf(guard, settings = {}, workspaceSettings = {}, sessionId = `s${(sessions += 1)}`) {
  return new Session(guard, { sessionId, agentId: 'test', settings, workspaceSettings });
}

/** An agent whose model answers with the given responses, one after the other, and then with words. */
export function agentOf(responses, overrides = {}) {
  const seen = { requests: [], invoked: [], halts: [], told: [] };
  const left = [...responses];
  const agent = {
    ask: async (request) => {
      seen.requests.push(request);
      return { text: '', calls: [], ...(left.shift() ?? { text: 'done' }) };
    },
    invoke: async (call) => {
      seen.invoked.push(call.id);
      return 'same';
    },
    decide: async (verdict) => {
      seen.halts.push(verdict);
      return { action: 'stop' };
    },
    tell: (message) => seen.told.push(message),
    ...overrides,
  };
  return { agent, seen };
}

export const call = (id, name = 'read_file', args = { path: id }) => ({ id, name, args });
