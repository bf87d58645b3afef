// The other side of benchmarks/key.py: repeat keys the way a JavaScript host makes them, in a process that answers
// one JSON line with one JSON line.
//   {"time": [base, from, count]}  -> CPU microseconds per key of count documents, base with "@@@@@@@" numbered
//   {"keys": [[name, json], ...]}  -> the keys
import { createHash } from "node:crypto";
import { createInterface } from "node:readline";

function sorted(value) {
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map(sorted);
  const copy = Object.create(null); // without a prototype, so that __proto__ is a key like any other
  for (const key of Object.keys(value).sort()) copy[key] = sorted(value[key]);
  return copy;
}

const ALIASES = { search_file_content: "grep_search", replace: "edit", task: "agent" };

function key(name, json) {
  name = Object.hasOwn(ALIASES, name) ? ALIASES[name] : name;
  return createHash("sha256").update(name + ":" + JSON.stringify(sorted(JSON.parse(json)))).digest("hex");
}

function time(base, from, count) {
  const documents = [];
  for (let i = from; i < from + count; i++) documents.push(base.replaceAll("@@@@@@@", String(i).padStart(7, "0")));
  const before = process.cpuUsage();
  for (const document of documents) key("edit", document);
  const { user, system } = process.cpuUsage(before);
  return (user + system) / count;
}

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  const answer = request.time ? time(...request.time) : request.keys.map(([name, json]) => key(name, json));
  process.stdout.write(JSON.stringify(answer) + "\n");
}
