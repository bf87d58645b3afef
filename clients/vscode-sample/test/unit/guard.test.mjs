import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { PATIENCE_MS, runTurn, STARTS_WITHIN_MS } from '../../dist/guard.js';
import { agentOf, broken, call, guardOf, PROGRAM, sessionOf, until } from './daemon.mjs';

const quiet = () => new AbortController().signal;
const soon = { firstPauseMs: 20 };

test('version and command line are logged', async (t) => {
  const { told } = await guardOf(t);
  assert.ok(told.log.some((line) => /^starting: .*turnguard serve$/.test(line)));
  assert.ok(told.log.some((line) => /^turnguard \d+\.\d+\.\d+, process \d+$/.test(line)));
});

test('a daemon that was killed comes back, and a turn that runs is guarded again under its name', async (t) => {
  const { guard, told } = await guardOf(t, soon);
  const session = sessionOf(guard, { model: { maxToolCallsPerTurn: 1 } });
  const { agent, seen } = agentOf(
    ['a', 'b', 'c', 'd'].map((id) => ({ calls: [call(id)] })),
    {
      invoke: async ({ id }) => {
        seen.invoked.push(id);
        if (id !== 'a') return;
        const killed = guard.connection;
        process.kill(killed.pid, 'SIGKILL');
        await until(() => guard.connection !== undefined && guard.connection !== killed, 'another daemon');
      },
    },
  );
  assert.equal(await runTurn(session, agent, 'turn of mine', quiet()), 'stopped');
  assert.deepEqual(seen.invoked, ['a', 'b'], 'its counts begin anew: a ran before, and b is its first call');
  assert.equal(seen.halts[0].turnId, 'turn of mine');
  assert.deepEqual(told.states.map(({ kind }) => kind).slice(0, 5), [
    'starting',
    'ready',
    'waiting',
    'starting',
    'ready',
  ]);
});

test('the evidence begins anew with the counts', async (t) => {
  const { guard } = await guardOf(t, soon);
  const session = sessionOf(guard, { model: { maxToolCallsPerTurn: 2 } });
  const again = (id) => call(id, 'read_file', { path: 'same' });
  const { agent, seen } = agentOf(
    ['a', 'b', 'c', 'd'].map((id) => ({ calls: [again(id)] })),
    {
      ask: async () => {
        const id = 'abcd'[seen.requests.push('') - 1];
        if (id === 'b') {
          const { connection } = guard;
          process.kill(connection.pid, 'SIGKILL');
          await until(() => guard.connection !== undefined && guard.connection !== connection, 'another daemon');
        }
        return { text: '', calls: [again(id)] };
      },
    },
  );
  assert.equal(await runTurn(session, agent, 't1', quiet()), 'stopped');
  assert.deepEqual(seen.invoked, ['a', 'b', 'c']);
  assert.deepEqual(session.trail.mostRepeated().at, [1, 2, 3]);
});

test('a turn right after the start waits for the daemon, and is guarded from its first call', async (t) => {
  const { guard, told } = await guardOf(t, { command: async () => [PROGRAM, 'serve'] });
  assert.equal(guard.state.kind, 'starting');
  const { agent } = agentOf([{ calls: [call('a')] }, { calls: [call('b')] }]);
  const session = sessionOf(guard, { model: { maxToolCallsPerTurn: 1 } });
  assert.equal(await runTurn(session, agent, 't1', quiet()), 'stopped');
  assert.deepEqual(told.unguarded, []);
  assert.equal(await guard.ready(), true);
});

test('nobody waits for ever for a start: not beyond the time given, not who gives up, not for one that fails', async (t) => {
  const silent = await guardOf(t, { command: async () => [broken('silent')], startMs: 60_000 });
  assert.equal(await silent.guard.ready(20), false);
  const { agent } = agentOf([]);
  const abort = new AbortController();
  const turn = runTurn(sessionOf(silent.guard), agent, 't1', abort.signal);
  abort.abort();
  const begun = Date.now();
  assert.equal(await turn, 'cancelled');
  assert.ok(Date.now() - begun < STARTS_WITHIN_MS);
  const failing = await guardOf(t, { command: () => Promise.reject(new Error('not found')) });
  assert.equal(await failing.guard.ready(60_000), false);
});

test('while there is no daemon calls run, at once, and it is said once', async (t) => {
  const patienceMs = 5_000;
  const { guard, told } = await guardOf(t, { firstPauseMs: 60_000, patienceMs });
  process.kill(guard.connection.pid, 'SIGKILL');
  await until(() => guard.state.kind === 'waiting', 'its end');
  const { agent, seen } = agentOf([{ calls: [call('a'), call('a')] }, { calls: [call('b')] }]);
  const begun = Date.now();
  assert.equal(await runTurn(sessionOf(guard), agent, 't1', quiet()), 'completed');
  assert.ok(Date.now() - begun < patienceMs);
  assert.deepEqual(seen.invoked, ['a', 'b']);
  assert.equal(told.unguarded.length, 1);
  assert.match(told.unguarded[0], /SIGKILL/);
  assert.deepEqual(told.causes, ['silent']);
});

test('a daemon that does not answer costs a turn its patience, once; when it wakes up it has missed nothing', async (t) => {
  assert.equal(PATIENCE_MS, 250);
  const patienceMs = 2_000; // More, so that a busy machine does not take as long by itself.
  const { guard, told } = await guardOf(t, { patienceMs });
  const session = sessionOf(guard, { model: { maxToolCallsPerTurn: 4 } });
  const { pid } = guard.connection;
  process.kill(pid, 'SIGSTOP');
  const begun = Date.now();
  const first = agentOf(
    ['a', 'b', 'c', 'd'].map((id) => ({ calls: [call(id)] })),
    {
      ask: async (request) => {
        first.seen.requests.push(request);
        if (request.answers[0]?.call.id === 'd') {
          const ms = Date.now() - begun;
          assert.ok(ms >= patienceMs && ms < 2 * patienceMs, `${ms} ms`);
          assert.deepEqual(told.unguarded, ['it does not answer']);
          process.kill(pid, 'SIGCONT');
          await until(() => guard.ask('turnguard/listSessions', {}), 'an answer');
          assert.equal(told.again, 1);
          return { text: '', calls: [call('e')] };
        }
        return { text: '', calls: [call('abcd'[first.seen.requests.length - 1])] };
      },
    },
  );
  assert.equal(await runTurn(session, first.agent, 't1', quiet()), 'stopped');
  assert.deepEqual(first.seen.invoked, ['a', 'b', 'c', 'd']);
  assert.equal(first.seen.halts[0].findings[0].count, 5);
  assert.equal(told.again, 1);
  await guard.stop();
  await guard.ask('turnguard/listSessions', {});
  assert.equal(told.unguarded.length, 2, 'the next time it is said again');
});

test('a daemon that hangs is replaced', async (t) => {
  const { guard } = await guardOf(t, { ...soon, patienceMs: PATIENCE_MS, hangsAfterMs: 3_000 });
  const { pid } = guard.connection;
  process.kill(pid, 'SIGSTOP');
  assert.equal(await guard.ask('turnguard/listSessions', {}), undefined);
  await until(() => guard.connection !== undefined && guard.connection.pid !== pid, 'another daemon');
  assert.deepEqual(await until(() => guard.ask('turnguard/listSessions', {}), 'an answer'), { sessions: [] });
});

test('an error of the daemon does not stop the agent, and its words are told', async (t) => {
  const { guard, told } = await guardOf(t);
  const { agent, seen } = agentOf([{ calls: [call('a')] }]);
  assert.equal(await runTurn(sessionOf(guard, { loopShield: { enabled: true } }), agent, 't1', quiet()), 'completed');
  assert.deepEqual(seen.invoked, ['a']);
  assert.equal(told.unguarded.length, 1);
  assert.match(told.unguarded[0], /maxConsecutiveTools/);
  assert.deepEqual(told.causes, ['refused']);
});

test('another protocol version is refused, in the words of the host, and not tried again', async (t) => {
  const refusal = ({ guard }) => until(() => guard.state.kind === 'failed' && guard.state, 'the refusal');
  const command = async () => [broken('wrong-version')];
  const bare = await refusal(await guardOf(t, { command }));
  assert.match(bare.why, /wrong-version\.mjs is turnguard 9\.9\.9 and speaks protocol 2, not 1$/);
  const unusable = ({ spoken, isOlder }) => `protocol ${spoken}, older: ${isOlder}`;
  const { why } = await refusal(await guardOf(t, { command, unusable }));
  assert.equal(why, 'protocol 2, older: false');
});

test('a program that is something else is refused', async (t) => {
  const { guard } = await guardOf(t, { command: async () => [broken('other-server')] });
  const { why } = await until(() => guard.state.kind === 'failed' && guard.state, 'the refusal');
  assert.match(why, /is not turnguard/);
});

test('a daemon that crashes again and again is given up, after longer and longer pauses', async (t) => {
  const { guard, told } = await guardOf(t, { command: async () => [broken('crash')], firstPauseMs: 5 });
  const { why } = await until(() => guard.state.kind === 'failed' && guard.state, 'giving up');
  assert.equal(why, 'it ended with code 3, 5 times in a row. Its last words: something is broken');
  assert.deepEqual(
    told.states.filter(({ kind }) => kind === 'waiting').map(({ pauseMs }) => pauseMs),
    [5, 10, 20, 40],
  );
  assert.ok(told.log.includes('something is broken'), 'its stderr is in the log');
});

test('a program that is not there fails with words for the person', async (t) => {
  const { guard } = await guardOf(t, { command: () => Promise.reject(new Error('turnguard was not found')) });
  await until(() => guard.state.kind === 'failed', 'failing');
  assert.equal(guard.state.why, 'turnguard was not found');
});

test('a program that cannot be started is no use again, and why is said in words', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'turnguard-'));
  t.after(() => rm(directory, { recursive: true }));
  const at = (name) => join(directory, name);
  await writeFile(at('locked'), '');
  await writeFile(at('orphan'), '#!/no/such/interpreter\n', { mode: 0o755 });
  const reasons = {
    'no-such-turnguard': 'no-such-turnguard was not found on PATH',
    [at('gone')]: `${at('gone')} was not found`,
    [at('locked')]: `${at('locked')} may not be executed`,
    [at('orphan')]: `${at('orphan')} cannot be started: what its first line names is gone`,
  };
  for (const [program, reason] of Object.entries(reasons)) {
    const { guard, told } = await guardOf(t, { command: async () => [program, 'serve'] });
    await until(() => guard.state.kind === 'failed', `failing of ${program}`);
    assert.equal(guard.state.why, reason);
    assert.deepEqual(
      told.states.map(({ kind }) => kind),
      ['starting', 'failed'],
    );
    await guard.ask('turnguard/listSessions', {});
    assert.deepEqual(told.unguarded, [reason]);
  }
});

test('a daemon that ends before it is spoken to is told by its exit, not by the pipe that broke', async (t) => {
  for (const name of ['closes-stdin', 'ends-after-initialize']) {
    const { guard, told } = await guardOf(t, { command: async () => [broken(name)], firstPauseMs: 5 });
    await until(() => guard.state.kind === 'failed', 'giving up');
    for (const { why } of told.states.filter(({ kind }) => kind === 'waiting'))
      assert.equal(why, 'it ended with code 4', name);
  }
});

test('a daemon that is silent from the start is not waited for for ever', async (t) => {
  const { guard } = await guardOf(t, { ...soon, command: async () => [broken('silent')], startMs: 200 });
  await until(() => guard.state.kind === 'waiting', 'its end');
  assert.match(guard.state.why, /does not answer/);
});

test('stopping does not wait for a daemon that does not listen', async (t) => {
  const silent = { command: async () => [broken('silent')], startMs: 60_000 };
  const early = await guardOf(t, silent);
  await early.guard.stop();
  assert.equal(early.guard.state.kind, 'stopped');
  const late = await guardOf(t, silent);
  await until(() => late.told.log.some((line) => line.startsWith('starting:')), 'its start');
  await late.guard.stop();
  assert.equal(late.guard.state.kind, 'stopped');
  const other = await guardOf(t);
  process.kill(other.guard.connection.pid, 'SIGSTOP');
  await other.guard.stop();
  assert.ok(other.told.log.includes('the daemon ended by SIGKILL'));
});

test('restart ends the old daemon and starts another, also when it is asked for twice', async (t) => {
  const { guard, told } = await guardOf(t);
  const { pid } = guard.connection;
  await Promise.all([guard.restart(), guard.restart()]);
  await until(() => guard.state.kind === 'ready', 'ready');
  assert.notEqual(guard.connection.pid, pid);
  assert.throws(() => process.kill(pid, 0));
  assert.ok(told.log.includes('the daemon ended with code 0'));
  assert.deepEqual(
    told.states.map(({ kind }) => kind),
    ['starting', 'ready', 'stopped', 'starting', 'ready'],
  );
});

test('settings go to the daemon at its start and when they change; nonsense is answered with a message', async (t) => {
  let settings = { model: { maxToolCallsPerTurn: 7 } };
  const { guard, told } = await guardOf(t, { settings: () => settings });
  const session = sessionOf(guard);
  const capNow = async () => {
    await session.prepareStep();
    return (await guard.ask('turnguard/status', { sessionId: session.id })).cap.value;
  };
  assert.equal(await capNow(), 7);
  settings = { model: { maxToolCallsPerTurn: 9 } };
  await guard.configure();
  assert.equal(await capNow(), 9);
  settings = { model: { maxToolCallsPerTurn: 'many' } };
  await guard.configure();
  assert.equal(await capNow(), 9);
  assert.match(await until(() => told.messages[0], 'a message'), /maxToolCallsPerTurn/);
});

test('sessions are told as they change', async (t) => {
  const { guard, told } = await guardOf(t);
  const session = sessionOf(guard);
  const { agent } = agentOf([{ calls: [call('a')] }]);
  await runTurn(session, agent, 't1', quiet());
  const last = await until(
    () => told.sessions.find(({ state, totals }) => state === 'idle' && totals.toolCalls === 1),
    'the end',
  );
  assert.equal(last.sessionId, session.id);
});
