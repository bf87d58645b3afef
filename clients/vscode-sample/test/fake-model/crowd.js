// Ten sessions at a time, as different as they come: to see whether the panel can still be read.
const vscode = require('vscode');

const LONG = 'mcp__issue_tracker__search_repositories_and_issues_with_filters';
const cap = { model: { maxToolCallsPerTurn: 5 } };
const progress = { turnguard: { progress: { action: 'halt' } } };
const stream = { turnguard: { turnGuard: 'stream' } };

/** What each asks for, how often, under which settings; `waits`: and then it takes its time. */
const CROWD = [
  { id: 'chat-1f3a', tool: 'read_file', steps: 3 },
  { id: 'chat-77b0', tool: 'edit_file', steps: 4, differs: true },
  { id: 'nightly-refactoring-of-the-payment-service', tool: LONG, steps: 2 },
  { id: 'chat-c0de', tool: 'run_tests', steps: 5, settings: { model: { maxToolCallsPerTurn: 200 } } },
  { id: 'docs', tool: 'grep', steps: 1, settings: { model: { maxToolCallsPerTurn: 0 } } },
  { id: 'chat-5e11', tool: LONG, steps: 4, settings: progress, waits: true },
  { id: 'chat-a9d2', tool: 'read_file', steps: 2, waits: true, differs: true },
  { id: 'review', tool: 'git_diff', steps: 9, settings: stream },
  { id: 'chat-42cc', tool: 'run_shell_command', steps: 9, settings: progress },
  { id: 'chat-8b1e', tool: LONG, steps: 9, settings: cap },
];

async function play(turns, { id, tool, steps, settings = {}, differs = false, waits = false }) {
  let step = 0;
  const session = turns.session({ sessionId: id, agentId: 'crowd', settings });
  await turns.run(session, {
    ask: async ({ signal }) => {
      step += 1;
      const args = { at: differs ? step : 'here' };
      if (step <= steps) return { text: '', calls: [{ id: `c${step}`, name: tool, args }] };
      if (waits) await new Promise((resolve) => signal.addEventListener('abort', resolve));
      return { text: 'Done.', calls: [] };
    },
    invoke: async () => (differs ? `answer ${step}` : 'nothing'),
  });
}

exports.registerCrowd = () =>
  vscode.commands.registerCommand('turnguardFake.crowd', async () => {
    const { turns } = await vscode.extensions.getExtension('turnguard.turnguard-sample').activate();
    for (const each of CROWD) {
      // One after the other, so that they stand in this order; a turn that is halted or waits does not end.
      const turn = play(turns, each);
      await Promise.race([turn, new Promise((resolve) => setTimeout(resolve, 700))]);
    }
  });
