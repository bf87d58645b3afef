// A client on the official TypeScript SDK: node acp_sdk_client.mjs MODULES PLAN COMMAND [ARGUMENT...]
// PLAN and what is printed are those of acp_sdk_client.py. What comes in is held against the SDK's own schema as well.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const MOST = 10;
const [modules, plan, command, ...args] = process.argv.slice(2);
const sdk = pathToFileURL(`${modules}/node_modules/@agentclientprotocol/sdk/dist/v1/`);
const acp = await import(new URL("stable/acp.js", sdk));
const schema = await import(new URL("schema/zod.gen.js", sdk));

const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));

const seen = [];
let shown = [];
let endTurn = () => {};
let turnEnded = Promise.resolve();

const prompted = async (agent, sessionId, text) => {
  shown = [];
  turnEnded = new Promise((resolve) => (endTurn = resolve));
  const one = {};
  try {
    const answer = await agent.request(acp.methods.agent.session.prompt, { sessionId, prompt: [{ type: "text", text }] });
    schema.zPromptResponse.parse(answer);
    one.answer = answer;
  } catch (error) {
    if (!(error instanceof acp.RequestError)) throw error;
    one.error = { code: error.code, message: error.message, data: error.data };
  }
  one.shown = shown;
  endTurn();
  return one;
};

await acp
  .client({ name: "a test" })
  .onNotification(acp.methods.client.session.update, ({ params }) => {
    schema.zSessionNotification.parse(params);
    shown.push(params.update);
  })
  .onRequest(acp.methods.client.session.requestPermission, async ({ params }) => {
    await turnEnded;
    return { outcome: { outcome: "selected", optionId: params.options[0].optionId } };
  })
  .connectWith(stream, async (agent) => {
    await agent.request(acp.methods.agent.initialize, { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {} });
    const { sessionId } = await agent.request(acp.methods.agent.session.new, { cwd: "/", mcpServers: [] });
    for (const step of JSON.parse(plan)) {
      for (let times = 0; times < MOST; times++) {
        seen.push(await prompted(agent, sessionId, step.text));
        if (seen.at(-1).answer?.stopReason !== (step.while ?? "never")) break;
      }
    }
  });

child.stdin.end();
if (child.exitCode === null) await once(child, "exit");
console.log(JSON.stringify(seen));
