// What a notification says, of a real verdict of each rule of each guard: short, and which call, how often.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { evidence, inShort, isOfCap } from '../../dist/guard.js';
import { guardOf, PROGRAM } from './daemon.mjs';

const repository = fileURLToPath(new URL('../../../../', import.meta.url));

/** Three lines of a notification; a halt has a question of four words besides. */
const MAX_LENGTH = 140;

/** The daemon's own tests have a turn that trips each rule. */
const PRINT_TRIPS = `
import sys
from msgspec import json
from tests.core.trips import TRIPS
trips = [{"id": each.id, "settings": each.settings, "events": each.events} for each in TRIPS]
sys.stdout.buffer.write(json.encode(trips))
`;

/** One of each guard. */
const WORDS = {
  'turn_tool_call_cap explicit_cap halt': 'demo was stopped: it came to 4 tool calls and may make 3.',
  'turn_tool_call_cap stuck halt': 'demo was stopped: "grep" came 6 times in 104 tool calls.',
  'turn_tool_call_cap backstop halt': 'demo was stopped: it came to 1004 tool calls and may make 1000.',
  'turn_tool_call_cap explicit_cap block': 'demo had a call refused: it came to 6 tool calls and may make 5.',
  'global_tool_call_duplicate halt':
    'demo was stopped: "grep" was called 6 times in this turn with the same arguments.',
  'global_tool_call_duplicate replayed_call_id block':
    'demo had a call refused: a call of "edit" that was already answered came again under its old id.',
  'consecutive_identical_tool_calls halt stream':
    'demo was stopped: "grep" was called 5 times in a row with the same arguments.',
  'chanting_identical_sentences halt stream': 'demo was stopped: the model wrote the same passage 10 times.',
  'repeated_tool_execution_failure stop halt': 'demo was stopped: "build" failed 9 times with the same kind of error.',
  'generic_repeat warning warn rolling': 'demo was warned: "read" was called 2 times with the same arguments.',
  'ping_pong critical block rolling':
    'demo had a call refused: two calls, of "edit" and of "read", alternated, 4 calls in all.',
  'compaction_loop_persisted halt':
    'demo was stopped: after the context was compacted "read" was called 3 times with the same arguments and the same result.',
  'tool_call_budget exhausted restrict': 'demo is held back: 2 tool calls came in a row, and the budget is 2.',
  'no_new_evidence call halt': 'demo was stopped: "read" has now given this same result 5 times in the last 20 calls.',
  'no_new_evidence edit halt':
    'demo was stopped: this same edit has been made 5 times. Most repeated: "Edit", 5 times.',
  'max_blocks_per_turn halt':
    'demo was stopped: 3 responses of this turn asked for calls that may not run. Most repeated: "edit", 3 times.',
  'max_steps_per_turn halt': 'demo was stopped: the turn came to 3 steps, and it may take 2.',
};

/** Rules about calls that differ from each other: no one of them is at fault. */
const BY_KIND = new Set(['shell_command_stagnation', 'read_file_loop', 'tool_call_budget']);

let trips;
before(() => {
  const python = join(dirname(PROGRAM), process.platform === 'win32' ? 'python.exe' : 'python');
  trips = JSON.parse(execFileSync(python, ['-c', PRINT_TRIPS], { cwd: repository, maxBuffer: 2 ** 26 }));
});

/** What is found last in a turn with these events. */
async function verdictOf(guard, sessionId, settings, events) {
  const record = (...told) => guard.connection.request('turnguard/record', { sessionId, events: told });
  await guard.connection.request('turnguard/openSession', { sessionId, settings });
  let verdict = await record({ type: 'turnStarted', turnId: '1' });
  for (const event of events) verdict = await record(event);
  return verdict;
}

test('every rule of every guard, by what its real verdict says', async (t) => {
  const { guard } = await guardOf(t);
  const read = {};
  for (const { id, settings, events } of trips) {
    const verdict = await verdictOf(guard, `real ${id}`, settings, events);
    // Where the person is told nothing there is no notification.
    if (verdict.userMessage === undefined) continue;
    const [finding] = verdict.findings;
    const words = (read[id] = inShort('demo', verdict));
    assert.match(words, /^demo (was|is|had) [^.]+\.( Most repeated: "[^"]+", \d+ times\.)?$/, id);
    assert.ok(words.length <= MAX_LENGTH, `${words.length} characters: ${words}`);
    assert.ok(!words.includes('etting'), words);
    // The cap counts calls that it did not name; a replay is one whatever its count.
    if (finding.reason !== 'replayed_call_id' && finding.reason !== 'stuck')
      assert.ok(words.includes(`${finding.count} `), `${finding.count} in: ${words}`);
    if (finding.tool !== undefined && !BY_KIND.has(finding.loopType))
      assert.ok(words.includes(`"${finding.tool}"`), `${finding.tool} in: ${words}`);
    const lines = evidence(finding, undefined).map(({ label, detail }) => `${label} ${detail}`);
    const [counted] = lines.filter((line) => line.endsWith(`limit ${finding.threshold}`));
    assert.match(counted, new RegExp(`^${finding.count} [a-z ]+ limit`), id);
    assert.doesNotMatch(counted, / counted /, `what is counted by ${id}`);
    assert.equal(isOfCap(verdict), id.startsWith('turn_tool_call_cap'));
  }
  const expected = Object.entries(WORDS);
  assert.deepEqual(Object.fromEntries(expected.map(([id]) => [id, read[id]])), WORDS);
});

test('in shadow it says what would have been', async (t) => {
  const { guard } = await guardOf(t);
  for (const { id, settings, events } of trips) {
    const shadow = { ...settings, turnguard: { ...settings.turnguard, shadow: true } };
    const verdict = await verdictOf(guard, `shadow ${id}`, shadow, events);
    if (verdict.userMessage === undefined) continue;
    const words = inShort('demo', verdict);
    assert.match(words, /^demo (would (have|be)|was warned).*: .*\.$/, id);
    assert.ok(words.length <= MAX_LENGTH + 40, `${words.length} characters: ${words}`);
  }
});

test('the name of a tool ends no sentence', async (t) => {
  const { guard } = await guardOf(t);
  const calls = Array.from({ length: 5 }, () => ({ name: 'a. b: "c". D', args: {} }));
  const settings = { turnguard: { turnGuard: 'stream' } };
  const verdict = await verdictOf(guard, 'named', settings, [{ type: 'toolCalls', calls }]);
  assert.equal(
    inShort('demo', verdict),
    `demo was stopped: "a. b: 'c'. D" was called 5 times in a row with the same arguments.`,
  );
});

test('a verdict of a daemon with other words is still told', () => {
  const totals = { toolCalls: 1, steps: 1, distinctKeys: 1, maxKeyRepeat: 1 };
  const verdict = { action: 'halt', findings: [], totals };
  assert.equal(inShort('demo', verdict), 'demo was stopped.');
  const finding = { guard: 'new', action: 'halt', loopType: 'new', count: 1, threshold: 1 };
  assert.equal(inShort('demo', { ...verdict, findings: [finding], modelMessage: 'No stop' }), 'demo was stopped.');
});
