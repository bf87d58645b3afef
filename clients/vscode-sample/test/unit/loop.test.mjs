import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { runTurn, ToolError } from '../../dist/guard.js';
import { agentOf, call, guardOf, sessionOf } from './daemon.mjs';

let guard;
let told;
before(async () => ({ guard, told } = await guardOf({ after: () => undefined })));
after(() => guard.stop());

const cap = (calls) => ({ model: { maxToolCallsPerTurn: calls } });
const quiet = () => new AbortController().signal;

test('the whole batch is told before any call of it runs', async () => {
  const session = sessionOf(guard);
  const at = [];
  const { agent } = agentOf([{ calls: [call('a'), call('b')] }], {
    invoke: async () => {
      const status = await guard.ask('turnguard/status', { sessionId: session.id });
      at.push(status.totals.toolCalls);
    },
  });
  assert.equal(await runTurn(session, agent, 't1', quiet()), 'completed');
  assert.deepEqual(at, [2, 2]);
  assert.deepEqual(told.unguarded, []);
});

test('a batch that crosses the cap does not run, and the person is asked once', async () => {
  const { agent, seen } = agentOf([{ calls: [call('a'), call('b')] }, { calls: [call('c'), call('d')] }]);
  assert.equal(await runTurn(sessionOf(guard, cap(3)), agent, 't1', quiet()), 'stopped');
  assert.deepEqual(seen.invoked, ['a', 'b']);
  assert.equal(seen.halts.length, 1);
  assert.equal(seen.halts[0].findings[0].reason, 'explicit_cap');
  assert.match(seen.halts[0].userMessage, /maxToolCallsPerTurn is 3/);
});

test('continue once lets that batch run, and the next is asked about again', async () => {
  const decisions = [{ action: 'continueOnce' }, { action: 'stop' }];
  const { agent, seen } = agentOf([{ calls: [call('a')] }, { calls: [call('b')] }, { calls: [call('c')] }], {
    decide: async () => decisions.shift(),
  });
  assert.equal(await runTurn(sessionOf(guard, cap(1)), agent, 't1', quiet()), 'stopped');
  assert.deepEqual(seen.invoked, ['a', 'b']);
  assert.deepEqual(decisions, []);
});

test('a raised cap holds for the rest of the turn, and not for the next', async () => {
  const session = sessionOf(guard, cap(1));
  const responses = ['a', 'b', 'c'].map((id) => ({ calls: [call(id)] }));
  const raising = agentOf(responses, { decide: async () => ({ action: 'raiseCap', calls: 10 }) });
  assert.equal(await runTurn(session, raising.agent, 't1', quiet()), 'completed');
  assert.deepEqual(raising.seen.invoked, ['a', 'b', 'c']);
  const next = agentOf(['d', 'e'].map((id) => ({ calls: [call(id)] })));
  assert.equal(await runTurn(session, next.agent, 't2', quiet()), 'stopped');
  assert.deepEqual(next.seen.invoked, ['d']);
});

test('of a batch only what is admitted runs; the other calls are answered with the message for the model', async () => {
  const settings = { ...cap(3), turnguard: { admission: 'call' } };
  const { agent, seen } = agentOf([{ calls: [call('a'), call('b')] }, { calls: [call('c'), call('d')] }]);
  await runTurn(sessionOf(guard, settings), agent, 't1', quiet());
  assert.deepEqual(seen.invoked, ['a', 'b', 'c']);
  const answers = seen.requests[2].answers;
  assert.deepEqual(
    answers.map(({ call: { id }, kind }) => [id, kind]),
    [
      ['c', 'ran'],
      ['d', 'refused'],
    ],
  );
  assert.ok(answers[1].output.length > 0);
  assert.deepEqual(seen.requests[2].notes, [], 'what is answered is not said again');
});

test('a call that the provider sent twice runs once and is answered once', async () => {
  const { agent, seen } = agentOf([{ calls: [call('a'), call('a')] }]);
  assert.equal(await runTurn(sessionOf(guard), agent, 't1', quiet()), 'completed');
  assert.deepEqual(seen.invoked, ['a']);
  assert.equal(seen.requests[1].answers.length, 1);
});

test('results are told: a turn that shows nothing new is warned of, and the model reads it with its next request', async () => {
  const responses = Array.from({ length: 12 }, (_, n) => ({ calls: [call(`c${n}`, 'look', { at: 'here' })] }));
  const { agent, seen } = agentOf(responses);
  assert.equal(await runTurn(sessionOf(guard), agent, 't1', quiet()), 'completed');
  const noted = seen.requests.flatMap(({ notes }, index) => notes.map((note) => [index, note]));
  assert.ok(noted.length > 0);
  assert.deepEqual(
    noted.map(([, note]) => note),
    [...new Set(noted.map(([, note]) => note))],
    'each thing once',
  );
  assert.equal(seen.told.length, noted.length);
  assert.match(seen.told[0], /Setting: turnguard\.progress\.action/);
  assert.doesNotMatch(noted[0][1], /Setting/, 'the model and the person read different words');
});

test('what was said before is not said again', async () => {
  const responses = Array.from({ length: 16 }, (_, n) => ({ calls: [call(`c${n}`, 'look', { at: 'here' })] }));
  let looks = 0;
  const { agent, seen } = agentOf(responses, { invoke: async () => `sight ${(looks += 1)}` });
  const session = sessionOf(guard, {
    tools: { loopDetection: { enabled: true } },
    turnguard: { progress: { action: 'off' } },
  });
  assert.equal(await runTurn(session, agent, 't1', quiet()), 'completed');
  assert.equal(seen.told.length, 1, 'the warning holds for six calls, and is news once');
  assert.equal(seen.requests.flatMap(({ notes }) => notes).length, 1);
});

test('what the workspace may not set is told, once', async () => {
  const { agent, seen } = agentOf([{ calls: [call('a')] }, { calls: [call('b')] }]);
  const session = sessionOf(guard, {}, { turnguard: { shadow: true } });
  assert.equal(await runTurn(session, agent, 't1', quiet()), 'completed');
  assert.equal(seen.told.length, 1);
  assert.match(seen.told[0], /shadow/);
});

test('which call came again, and where, is kept as evidence; of the turn at hand', async () => {
  const session = sessionOf(guard, cap(4));
  const again = (id) => call(id, 'read_file', { path: 'same' });
  const responses = [{ calls: [again('a'), call('b')] }, { calls: [again('c')] }, { calls: [call('d'), again('e')] }];
  assert.equal(
    await runTurn(
      session,
      agentOf(responses, { decide: async () => ({ action: 'continueOnce' }) }).agent,
      't1',
      quiet(),
    ),
    'completed',
  );
  assert.deepEqual(session.trail.mostRepeated('read_file'), { tool: 'read_file', at: [1, 3, 5] });
  await runTurn(session, agentOf([]).agent, 't2', quiet());
  assert.equal(session.trail.mostRepeated(), undefined);
});

test('an error is a result too, and of which type it is counts', async () => {
  const responses = Array.from({ length: 20 }, (_, n) => ({ calls: [call(`c${n}`, 'nosuch', { n })] }));
  const { agent, seen } = agentOf(responses, {
    invoke: async () => {
      throw new ToolError('There is no tool nosuch.', 'unknown_tool');
    },
  });
  assert.equal(await runTurn(sessionOf(guard), agent, 't1', quiet()), 'stopped');
  assert.deepEqual(seen.requests[1].answers[0].kind, 'failed');
  assert.equal(seen.requests[1].answers[0].output, 'There is no tool nosuch.');
  assert.equal(seen.halts[0].findings[0].loopType, 'invalid_tool_params_stagnation');
});

test('a used-up budget reaches the model as no tools', async () => {
  const settings = { loopShield: { enabled: true, maxConsecutiveTools: 2 } };
  const { agent, seen } = agentOf([{ calls: [call('a'), call('b')] }]);
  await runTurn(sessionOf(guard, settings), agent, 't1', quiet());
  assert.deepEqual(
    seen.requests.map(({ toolChoice }) => toolChoice),
    ['auto', 'none'],
  );
});

test('states of a budget reach the model as the tools to offer', async () => {
  const settings = {
    loopShield: {
      enabled: true,
      maxConsecutiveTools: 1,
      fallbackState: 'ASK',
      states: { WORK: ['read_file'], ASK: ['ask'] },
    },
  };
  const { agent, seen } = agentOf([{ calls: [call('a')] }]);
  await runTurn(sessionOf(guard, settings), agent, 't1', quiet());
  assert.deepEqual(
    seen.requests.map(({ activeTools }) => activeTools),
    [['read_file'], ['ask']],
  );
});

test('a turn that the person cancels ends as cancelled, and calls that did not begin do not', async () => {
  const session = sessionOf(guard);
  const abort = new AbortController();
  const { agent, seen } = agentOf([{ calls: [call('a'), call('b')] }], {
    invoke: async ({ id }) => {
      seen.invoked.push(id);
      abort.abort();
      return '';
    },
  });
  assert.equal(await runTurn(session, agent, 't1', abort.signal), 'cancelled');
  assert.deepEqual(seen.invoked, ['a']);
  assert.equal((await guard.ask('turnguard/closeSession', { sessionId: session.id })).outcome, 'cancelled');
});

test('a model that fails ends the turn as failed', async () => {
  const { agent } = agentOf([], {
    ask: async () => {
      throw new Error('no quota');
    },
  });
  const session = sessionOf(guard);
  await assert.rejects(runTurn(session, agent, 't1', quiet()), /no quota/);
  assert.equal((await guard.ask('turnguard/closeSession', { sessionId: session.id })).outcome, 'failed');
});

test('text is told too', async () => {
  const settings = { model: { skipLoopDetection: false }, turnguard: { turnGuard: 'stream' } };
  const { agent, seen } = agentOf([{ text: 'I will now check the file again to be sure about it. '.repeat(30) }]);
  assert.equal(await runTurn(sessionOf(guard, settings), agent, 't1', quiet()), 'stopped');
  assert.equal(seen.halts[0].findings[0].loopType, 'chanting_identical_sentences');
});

test('shadow: everything is told, and every call runs', async () => {
  const { agent, seen } = agentOf([{ calls: [call('a')] }, { calls: [call('b')] }]);
  assert.equal(
    await runTurn(sessionOf(guard, { ...cap(1), turnguard: { shadow: true } }), agent, 't1', quiet()),
    'completed',
  );
  assert.deepEqual(seen.invoked, ['a', 'b']);
  assert.equal(seen.told.length, 1);
});

test('ids are new in a turn, and may come again in the next: its calls run', async () => {
  const session = sessionOf(guard);
  for (const turn of ['t1', 't2', 't2']) {
    const { agent, seen } = agentOf([{ calls: [call('a'), call('b')] }, { calls: [call('c')] }]);
    assert.equal(await runTurn(session, agent, turn, quiet()), 'completed');
    assert.deepEqual(seen.invoked, ['a', 'b', 'c']);
    assert.deepEqual(
      seen.requests.flatMap(({ answers }) => answers.map(({ call: { id }, kind }) => `${id} ${kind}`)),
      ['a ran', 'b ran', 'c ran'],
    );
  }
  const { agent, seen } = agentOf([{ calls: [call('a')] }]);
  await runTurn(sessionOf(guard, {}, {}, session.id), agent, 't1', quiet());
  assert.deepEqual(seen.invoked, ['a'], 'nor do those of a session that another window had');
});

test('an id that comes again in one turn is a replay, and does not run again', async () => {
  const { agent, seen } = agentOf([{ calls: [call('a')] }, { calls: [call('a')] }]);
  assert.equal(await runTurn(sessionOf(guard), agent, 't1', quiet()), 'completed');
  assert.deepEqual(seen.invoked, ['a']);
  assert.equal(seen.requests[2].answers[0].kind, 'refused');
});

test('a call that becomes known later is known by the id that it came with', async () => {
  const session = sessionOf(guard);
  await session.record([{ type: 'turnStarted', turnId: 't1' }]);
  const [blank, other] = ['a', 'b'].map((id) => ({ id, name: 'look', fidelity: 'none', key: `k${id}` }));
  await session.record([{ type: 'toolCalls', calls: [blank, other] }]);
  const rekeyed = (id) => ({ type: 'callRekeyed', id, args: { at: 'here' } });
  const { totals } = await session.record([rekeyed('a'), rekeyed('b')]);
  assert.equal(totals.maxKeyRepeat, 2);
});
