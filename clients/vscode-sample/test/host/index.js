// Tests that run inside the extension host of a real VS Code. They need our extension and the one in test/fake-model
// (a VS Code in a browser takes one `extensionDevelopmentPath` only: install our .vsix, and develop the fake model), a
// turnguard that is found, and an open folder that may be written to.
const assert = require('node:assert/strict');
const { mkdir, readFile, writeFile } = require('node:fs/promises');
const { join } = require('node:path');
const vscode = require('vscode');

const tests = [];
const test = (name, run) => tests.push({ name, run });
const broken = (name) => join(__dirname, '..', 'daemons', `${name}.mjs`);
const run = (command, ...args) => vscode.commands.executeCommand(`turnguard.${command}`, ...args);
const configuration = () => vscode.workspace.getConfiguration('turnguard');
const { Global, Workspace } = vscode.ConfigurationTarget;

/** What our extension exports. */
let api;
/** How often the fake model's tool ran. */
let looks;

async function until(holds, what, ms = 15_000) {
  for (const end = Date.now() + ms; Date.now() < end;) {
    const value = await holds();
    if (value) return value;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(`not within ${ms} ms: ${what}`);
}

const state = () => api.daemon.guard.state.kind;
const ready = () => until(() => state() === 'ready', 'the daemon is ready', 30_000);
const halted = (id) => until(() => api.controls.halted().includes(id), `${id} is halted`);
const running = (id) => api.controls.isRunning(id);

/** Sets a setting for as long as `body` takes. */
async function withSetting(name, value, target, body) {
  await configuration().update(name, value, target);
  try {
    return await body();
  } finally {
    await configuration().update(name, undefined, target);
  }
}

const fakeModel = () =>
  until(async () => (await vscode.lm.selectChatModels({ vendor: 'turnguard-fake' }))[0], 'the fake model is there');

/** A turn of the model that never tires. */
async function startLooping(sessionId, cap) {
  const model = await fakeModel();
  const session = api.turns.session({ sessionId, agentId: 'test', settings: { model: { maxToolCallsPerTurn: cap } } });
  const written = [];
  const agent = new api.ModelAgent({
    model,
    messages: [vscode.LanguageModelChatMessage.User('Look.')],
    tools: vscode.lm.tools.filter(({ name }) => name === 'fake_look'),
    invocationToken: undefined,
    token: new vscode.CancellationTokenSource().token,
    write: (text) => written.push(text),
  });
  return { session, written, outcome: api.turns.run(session, agent) };
}

test('the daemon starts', async () => {
  await ready();
});

test('with a fresh profile the daemon hears of no setting', async () => {
  const { values } = await api.daemon.guard.ask('turnguard/settings', {});
  assert.deepEqual(
    values.filter(({ origin }) => origin !== 'default'),
    [],
  );
});

test('what the person sets is heard, and forgotten when it is unset', async () => {
  const heard = async () =>
    (await api.daemon.guard.ask('turnguard/settings', {})).values.find(
      ({ name }) => name === 'model.maxToolCallsPerTurn',
    );
  await withSetting('model.maxToolCallsPerTurn', 42, Global, () =>
    until(async () => (await heard()).value === 42, '42'),
  );
  await until(async () => (await heard()).origin === 'default', 'the default again');
});

test('what the workspace sets may only tighten', async () => {
  const capOf = async (sessionId) => {
    const session = api.turns.session({ sessionId, agentId: 'test' });
    await session.prepareStep();
    return (await api.daemon.guard.ask('turnguard/status', { sessionId })).cap;
  };
  await withSetting('model.maxToolCallsPerTurn', 30, Global, async () => {
    await withSetting('model.maxToolCallsPerTurn', 500, Workspace, async () =>
      assert.equal((await capOf('looser')).value, 30),
    );
    await withSetting('model.maxToolCallsPerTurn', 5, Workspace, async () =>
      assert.equal((await capOf('stricter')).value, 5),
    );
  });
});

test('every command that is contributed is there', async () => {
  const { packageJSON } = vscode.extensions.getExtension('turnguard.turnguard-sample');
  const there = await vscode.commands.getCommands(true);
  for (const { command } of packageJSON.contributes.commands) assert.ok(there.includes(command), command);
});

test('a model that loops is stopped at the cap', async () => {
  const before = looks();
  const { outcome, session } = await startLooping('looping', 5);
  await halted('looping');
  assert.equal(looks() - before, 4, 'two pairs ran, and the third did not');
  const { at } = session.trail.mostRepeated();
  assert.deepEqual(at, [1, 3, 5]);
  await run('stop', { sessionId: 'looping' });
  assert.equal(await outcome, 'stopped');
  assert.equal(looks() - before, 4);
});

test('Continue Once lets that pair run; Raise Cap more of them; the tree gives its node', async () => {
  const before = looks();
  const { outcome } = await startLooping('continued', 5);
  await halted('continued');
  await run('continueOnce', { sessionId: 'continued' });
  await halted('continued');
  assert.equal(looks() - before, 6);
  await run('raiseCap', { sessionId: 'continued' });
  await halted('continued');
  assert.ok(looks() - before > 8, `${looks() - before} calls`);
  await run('stop', { sessionId: 'continued' });
  assert.equal(await outcome, 'stopped');
});

test('@guarded, in the chat: halted at the cap, decided there, and one session for a conversation', async () => {
  const chats = () => api.sessions.list().filter(({ sessionId }) => sessionId.startsWith('chat-'));
  const ask = (query) => vscode.commands.executeCommand('workbench.action.chat.open', { query, mode: 'ask' });
  await withSetting('model.maxToolCallsPerTurn', 4, Global, async () => {
    await fakeModel();
    void ask('@guarded look around');
    const id = await until(
      () => api.controls.halted().find((each) => each.startsWith('chat-')),
      'the chat is halted',
      30_000,
    );
    await run('continueOnce', { sessionId: id });
    await halted(id);
    await until(() => api.sessions.status(id).overrides.length === 1, 'it is shown as continued');
    await run('continueOnce', { sessionId: id, haltId: 0 });
    assert.ok(api.controls.isHalted(id), 'a button of a halt that was decided does nothing');
    await run('stop', { sessionId: id });
    await until(() => !running(id), 'its end');
    // The model gives its calls the ids that it gave them before, and they run all the same.
    const before = looks();
    void ask('@guarded look again');
    await halted(id);
    assert.equal(looks() - before, 4);
    await until(() => api.sessions.status(id).turnId === '2', 'its second turn is shown');
    assert.equal(chats().length, 1);
    await run('stop', { sessionId: id });
    await until(() => !running(id), 'its end');
  });
});

test('closing the notification means stop', async () => {
  const { outcome } = await startLooping('closed', 2);
  await halted('closed');
  // Again, should it not have come up yet.
  await until(async () => {
    await vscode.commands.executeCommand('notifications.clearAll');
    return !running('closed');
  }, 'its end');
  assert.equal(await outcome, 'stopped');
});

test('without notifications a halted turn ends', async () => {
  await withSetting('showNotifications', 'off', Global, async () => {
    const { outcome } = await startLooping('quiet', 2);
    assert.equal(await outcome, 'stopped');
  });
});

test('the demo halts, and is stopped from the palette; again and again', async () => {
  for (const turn of ['1', '2']) {
    const demo = run('runDemo');
    await halted('demo');
    // What the daemon tells of a session comes after its verdict.
    const { totals } = await until(() => {
      const status = api.sessions.status('demo');
      return status?.turnId === turn && status.state === 'halted' && status;
    }, `turn ${turn} is shown as halted`);
    assert.equal(totals.toolCalls, 6);
    await run('stop');
    await demo;
    assert.equal(running('demo'), false);
  }
});

test('Stop of a halt that was decided stops the turn all the same', async () => {
  const { outcome } = await startLooping('stopped-late', 2);
  const { id: haltId } = await until(() => api.controls.haltOf('stopped-late'), 'it is halted');
  await run('raiseCap', { sessionId: 'stopped-late' });
  await run('stop', { sessionId: 'stopped-late', haltId });
  assert.notEqual(await outcome, 'completed');
});

test('a turn that goes on while the guard is silent is shown as that', async () => {
  const { connection } = api.daemon.guard;
  const { outcome } = await startLooping('goes-on', 2);
  await halted('goes-on');
  await until(() => api.sessions.status('goes-on')?.state === 'halted', 'it is shown as halted');
  const phase = () => api.sessions.phase(api.sessions.status('goes-on'));
  process.kill(connection.pid, 'SIGSTOP');
  try {
    const before = looks();
    await run('continueOnce', { sessionId: 'goes-on' });
    assert.equal(phase(), 'waiting');
    await until(() => looks() > before, 'its calls run');
    assert.equal(phase(), 'unguarded');
  } finally {
    process.kill(connection.pid, 'SIGCONT');
  }
  await halted('goes-on');
  await run('stop', { sessionId: 'goes-on' });
  assert.equal(await outcome, 'stopped');
});

test('the status tool answers a model', async () => {
  const { content } = await vscode.lm.invokeTool('turnguard_status', { input: {}, toolInvocationToken: undefined });
  const { sessions } = JSON.parse(content[0].value);
  assert.ok(sessions.some(({ sessionId, cap }) => sessionId === 'demo' && cap === 5));
});

test('a daemon that is killed in the middle of a turn comes back, and guards it', async () => {
  const { outcome } = await startLooping('killed', 5);
  await halted('killed');
  const killed = api.daemon.guard.connection;
  process.kill(killed.pid, 'SIGKILL');
  await until(() => api.daemon.guard.connection !== killed, 'its end');
  const before = looks();
  await run('continueOnce', { sessionId: 'killed' });
  await halted('killed');
  assert.ok(looks() > before, 'calls ran while it was away');
  assert.equal(state(), 'ready');
  await run('stop', { sessionId: 'killed' });
  assert.equal(await outcome, 'stopped');
});

test('a daemon that does not answer does not hold up a turn', async () => {
  const { options, connection } = api.daemon.guard;
  const { pid } = connection;
  const { patienceMs } = options;
  options.patienceMs = undefined; // That of everyday use.
  process.kill(pid, 'SIGSTOP');
  try {
    const before = looks();
    const { session } = await startLooping('silence', 5);
    await until(() => looks() - before > 10, 'calls run past the cap');
    process.kill(pid, 'SIGCONT');
    await halted('silence');
    await until(() => api.sessions.status('silence')?.turnId === session.turnId, 'the tree shows the turn');
    await run('stop', { sessionId: 'silence' });
  } finally {
    options.patienceMs = patienceMs;
    process.kill(pid, 'SIGCONT');
  }
});

test('restart', async () => {
  const { pid } = api.daemon.guard.connection;
  await run('restart');
  await ready();
  assert.notEqual(api.daemon.guard.connection.pid, pid);
  assert.deepEqual(api.sessions.list(), []);
});

test('a daemon of another version is refused; with the setting gone the guard is back', async () => {
  await withSetting('path', broken('wrong-version'), Workspace, async () => {
    const failed = await until(() => state() === 'failed' && api.daemon.guard.state, 'the refusal');
    assert.match(failed.why, /protocol 2/);
  });
  await ready();
});

test('hooks of VS Code are shown, and written only when that is confirmed, beside what is there', async () => {
  const [folder] = vscode.workspace.workspaceFolders;
  const file = join(folder.uri.fsPath, '.github/hooks/turnguard.json');
  const content = () => readFile(file, 'utf8').catch(() => undefined);
  const asked = [];
  const write = (isWanted) => api.writeHooks(folder, answer(isWanted), api.log);
  const answer = (isWanted) => (question, detail) => {
    asked.push({ question, detail, shown: vscode.window.activeTextEditor?.document.getText() });
    return Promise.resolve(isWanted);
  };

  assert.equal(await write(false), undefined);
  assert.equal(await content(), undefined, 'nothing is written unasked');
  assert.match(asked[0].detail, / \.github\/hooks\/turnguard\.json\. What is in that file already stays\.$/);
  const { hooks: shown } = JSON.parse(asked[0].shown);
  assert.match(shown.PreToolUse[0].command, /turnguard hook vscode$/);

  const own = { type: 'command', command: 'own-check' };
  await mkdir(join(file, '..'), { recursive: true });
  await writeFile(file, JSON.stringify({ version: 7, hooks: { PreToolUse: [own], SessionStart: [own] } }));
  assert.match((await write(true)).told, /^Written to \.github\/hooks\/turnguard\.json\./);
  const { version, hooks } = JSON.parse(await content());
  assert.equal(version, 7);
  assert.deepEqual(hooks.SessionStart, [own]);
  assert.deepEqual(hooks.PreToolUse, [own, ...shown.PreToolUse]);

  await writeFile(file, '{ "hooks": ');
  await assert.rejects(write(true), /turnguard\.json is not plain JSON, so it is not changed/);
  assert.equal(await content(), '{ "hooks": ', 'what turnguard cannot read it does not change');
  assert.equal(asked.length, 3);
});

exports.run = async () => {
  const extension = vscode.extensions.getExtension('turnguard.turnguard-sample');
  api = await extension.activate();
  ({ looks } = await vscode.extensions.getExtension('turnguard-test.fake-model').activate());
  let failed = 0;
  for (const { name, run } of tests) {
    try {
      await run();
      console.log(`ok - ${name}`);
    } catch (error) {
      failed += 1;
      console.log(`not ok - ${name}\n${error.stack}`);
    }
  }
  console.log(`${tests.length - failed} passed, ${failed} failed`);
  if (failed > 0) throw new Error(`${failed} tests failed`);
};
