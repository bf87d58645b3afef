// The Node side of benchmarks/service.py, both on vscode-jsonrpc.
//   node service_node.mjs MODULES server
//   node service_node.mjs MODULES client REQUESTS BYTES COMMAND [ARGUMENT...]
// The server answers every request with a verdict. The client prints the median milliseconds of one request at a time.
import { spawn } from "node:child_process";
import { createRequire } from "node:module";

const [modules, role, ...rest] = process.argv.slice(2);
const rpc = createRequire(`${modules}/`)("vscode-jsonrpc/node");

const connect = (input, output) =>
  rpc.createMessageConnection(new rpc.StreamMessageReader(input), new rpc.StreamMessageWriter(output));

if (role === "server") {
  const totals = { toolCalls: 1, steps: 1, distinctKeys: 1, maxKeyRepeat: 1, maxKeyTool: "read_file" };
  const connection = connect(process.stdin, process.stdout);
  connection.onRequest(() => ({ action: "allow", turnId: "turn-1", findings: [], admitted: [0], totals }));
  connection.onNotification("exit", () => process.exit(0));
  connection.listen();
} else {
  const [requests, bytes, command, ...args] = rest;
  const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
  const connection = connect(child.stdout, child.stdin);
  connection.listen();
  await connection.sendRequest("initialize", {
    processId: process.pid,
    capabilities: {},
    initializationOptions: { settings: { model: { maxToolCallsPerTurn: 0 } } },
  });
  await connection.sendRequest("turnguard/openSession", { sessionId: "s" });
  const took = [];
  for (let index = 0; index < Number(requests); index++) {
    const args = { path: `/src/${index}.ts`, text: "x".repeat(Number(bytes)) };
    const events = [{ type: "toolCalls", calls: [{ id: `c${index}`, name: "read_file", args }] }];
    const before = process.hrtime.bigint();
    await connection.sendRequest("turnguard/record", { sessionId: "s", events });
    took.push(Number(process.hrtime.bigint() - before) / 1e6);
  }
  took.sort((a, b) => a - b);
  console.log(took[Math.floor(took.length / 2)]);
  child.kill();
  process.exit(0);
}
