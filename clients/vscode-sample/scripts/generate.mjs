// Makes what is made from the daemon's own description of itself: `src/guard/protocol.ts`, and in package.json the
// settings. `--check` writes nothing and fails when a file is not what it would be.
import { readFile, writeFile } from 'node:fs/promises';
import { compile } from 'json-schema-to-typescript';

const here = new URL('..', import.meta.url);
const schemas = new URL('../../protocol/schema/', here);
const read = async (url) => JSON.parse(await readFile(url, 'utf8'));

/** The settings of this extension that are no settings of the daemon. */
const OWN_SETTINGS = {
  'turnguard.path': {
    type: 'string',
    default: '',
    scope: 'machine-overridable',
    order: -2,
    markdownDescription:
      'The `turnguard` program. `~` and `${workspaceFolder}` may stand in it. Empty: the one beside the selected ' +
      'Python interpreter, else the one on `PATH`. What a workspace says here counts once you trust the workspace.',
  },
  'turnguard.showNotifications': {
    type: 'string',
    enum: ['off', 'halt', 'warn'],
    enumDescriptions: [
      'Never. A turn that is halted ends.',
      'Ask when a turn is halted.',
      'Ask when a turn is halted, and tell when one begins to repeat itself.',
    ],
    default: 'halt',
    scope: 'machine',
    order: -1,
    markdownDescription: 'When a notification comes up. Closing one stops the turn.',
  },
};

async function protocol(schema) {
  const types = await compile(
    { title: 'Protocol', type: 'object', additionalProperties: false, $defs: readable(schema.$defs, true) },
    'Protocol',
    {
      additionalProperties: false,
      bannerComment: '// Made by `npm run generate` from protocol/schema/turnguard.schema.json. Do not edit.',
      style: { printWidth: 120, singleQuote: true },
      unreachableDefinitions: true,
    },
  );
  const named = (each) => each.$ref?.split('/').pop() ?? each.type ?? each.anyOf.map(named).join(' | ');
  const methods = Object.entries(schema.methods).map(
    ([name, { params, result }]) => `  '${name}': { params: ${named(params)}; result: ${named(result)} };`,
  );
  const notifications = Object.entries(schema.notifications).map(([name, params]) => `  '${name}': ${named(params)};`);
  return [
    types
      .replace('export interface Protocol {}\n', '')
      .replaceAll(/( \*\n)? \* This interface was referenced by .*\n \* via the `definition` .*\n/g, '')
      .replaceAll('/**\n */\n', ''),
    `export const PROTOCOL_VERSION = ${schema.version};\n`,
    `/** Requests: what they take and what they are answered with. */`,
    `export interface Methods {\n${methods.join('\n')}\n}\n`,
    `/** What the daemon tells unasked. */`,
    `export interface Notifications {\n${notifications.join('\n')}\n}\n`,
  ].join('\n');
}

/** A title would name types a second time; the empty schema is any JSON. `names`: its keys are names, not keywords. */
function readable(schema, names = false) {
  if (Array.isArray(schema)) return schema.map((each) => readable(each));
  if (schema === null || typeof schema !== 'object') return schema;
  const entries = Object.entries(schema);
  if (entries.length === 0) return names ? {} : { tsType: 'unknown' };
  return Object.fromEntries(
    entries
      .filter(([key]) => names || (key !== 'title' && key !== 'discriminator'))
      .map(([key, each]) => [key, readable(each, !names && key === 'properties')]),
  );
}

async function manifest({ configuration }) {
  const text = await readFile(new URL('package.json', here), 'utf8');
  const document = JSON.parse(text);
  document.contributes.configuration = {
    title: configuration.title,
    properties: { ...OWN_SETTINGS, ...configuration.properties },
  };
  return JSON.stringify(document, null, 2) + '\n';
}

function settingNames({ names }) {
  return [
    '// Made by `npm run generate` from protocol/schema/vscode-configuration.json. Do not edit.',
    '',
    '/** The settings that a person can make in VS Code, and what the daemon calls each. */',
    `export const SETTING_NAMES: Readonly<Record<string, string>> = ${JSON.stringify(names, null, 2)};`,
    '',
  ].join('\n');
}

const configuration = await read(new URL('vscode-configuration.json', schemas));
const made = {
  'src/guard/protocol.ts': await protocol(await read(new URL('turnguard.schema.json', schemas))),
  'src/guard/settingNames.ts': settingNames(configuration),
  'package.json': await manifest(configuration),
};
const stale = [];
for (const [name, text] of Object.entries(made)) {
  const url = new URL(name, here);
  if ((await readFile(url, 'utf8').catch(() => '')) === text) continue;
  stale.push(name);
  if (!process.argv.includes('--check')) await writeFile(url, text);
}
if (process.argv.includes('--check') && stale.length > 0) {
  console.error(`stale: ${stale.join(', ')}; run npm run generate`);
  process.exitCode = 1;
}
