// A host on vscode-jsonrpc, the library that VS Code talks to language servers with.
//   node vscode_jsonrpc_client.mjs MODULES COMMAND [ARGUMENT...]
// Runs the daemon twice and fails by an assertion; prints what it has seen when all is well.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createRequire } from "node:module";

const [modules, command, ...args] = process.argv.slice(2);
const rpc = createRequire(`${modules}/`)("vscode-jsonrpc/node");

const start = async () => {
  const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
  const connection = rpc.createMessageConnection(
    new rpc.StreamMessageReader(child.stdout),
    new rpc.StreamMessageWriter(child.stdin),
  );
  const faults = [];
  connection.onError((fault) => faults.push(fault));
  const loops = [];
  const changes = [];
  connection.onNotification("turnguard/didDetectLoop", (params) => loops.push(params));
  connection.onNotification("turnguard/didChangeSession", (params) => changes.push(params));
  connection.listen();
  const { capabilities, serverInfo } = await connection.sendRequest("initialize", {
    processId: process.pid,
    rootUri: null,
    capabilities: {},
    initializationOptions: { settings: null },
  });
  assert.equal(serverInfo.name, "turnguard");
  assert.equal(capabilities.experimental.turnguard.protocolVersion, 1);
  await connection.sendNotification("initialized", {});
  return { child, connection, loops, changes, faults };
};

const until = async (condition) => {
  const deadline = Date.now() + 20_000;
  while (!condition()) {
    assert.ok(Date.now() < deadline, "it did not happen in time");
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
};

const { child, connection, loops, changes, faults } = await start();
const capped = { sessionId: "capped", settings: { model: { maxToolCallsPerTurn: 3, skipLoopDetection: null } } };
assert.equal((await connection.sendRequest("turnguard/openSession", capped)).cap.value, 3);
assert.equal((await connection.sendRequest("turnguard/openSession", { sessionId: "free" })).cap.explicit, false);

const record = (sessionId, number) => {
  const calls = [{ id: `${sessionId}-${number}`, name: "read_file", args: { path: `${number}.ts`, cut: "😀".slice(0, 1) } }];
  const events = number === 0 ? [{ type: "turnStarted", turnId: `turn of ${sessionId}` }] : [];
  return connection.sendRequest("turnguard/record", { sessionId, events: [...events, { type: "toolCalls", calls }] });
};

// Interleaved and in flight at once: each answer is its own session's.
const verdicts = { capped: [], free: [] };
const flights = [];
for (let number = 0; number < 6; number++) {
  for (const sessionId of ["capped", "free"]) {
    flights.push(record(sessionId, number).then((verdict) => verdicts[sessionId].push(verdict)));
  }
}
await Promise.all(flights);
const actions = (sessionId) => verdicts[sessionId].map((verdict) => verdict.action);
assert.deepEqual(actions("capped"), ["allow", "allow", "allow", "halt", "halt", "halt"]);
assert.deepEqual(actions("free"), Array(6).fill("allow"));
assert.deepEqual(verdicts.capped[3].admitted, []);
assert.deepEqual(verdicts.free[5].admitted, [0]);
assert.equal(verdicts.free[5].totals.toolCalls, 6);

await until(() => loops.length === 1 && changes.some((status) => status.sessionId === "capped"));
assert.equal(loops[0].sessionId, "capped");
assert.equal(loops[0].turnId, "turn of capped");
assert.equal(loops[0].finding.reason, "explicit_cap");
assert.equal(changes.filter((status) => status.sessionId === "capped").at(-1).state, "halted");

await assert.rejects(connection.sendRequest("turnguard/status", { sessionId: "nope" }), (error) => {
  assert.equal(error.code, -32004);
  assert.deepEqual(error.data, { errorKind: "session_not_found", sessionId: "nope" });
  return true;
});

assert.equal(await connection.sendRequest("shutdown"), null);
await connection.sendNotification("exit");
const [code] = await once(child, "exit");
assert.equal(code, 0);
assert.deepEqual(faults, []);

const other = await start();
await other.connection.sendNotification("exit");
const [codeWithoutShutdown] = await once(other.child, "exit");
assert.equal(codeWithoutShutdown, 1);

console.log(JSON.stringify({ actions: actions("capped"), loops: loops.length, code, codeWithoutShutdown }));
