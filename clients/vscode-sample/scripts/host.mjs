// Runs test/host inside the extension host of a real VS Code, beside the fake model of test/fake-model.
import { dirname, join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { Editor } from './editor/editor.mjs';

const TIMEOUT_MS = 240_000;
/** What test/host writes; everything else is the editor's. */
const OURS = /^(not )?ok - |^\d+ passed, \d+ failed$/;
const test = join(dirname(dirname(fileURLToPath(import.meta.url))), 'test');

const editor = await Editor.start({ inHostTests: true });
/** What the editor itself has to say: of interest only when something went wrong. */
const noise = [];
let code = 'no answer in time';
try {
  const { page, go } = await editor.open({
    payload: JSON.stringify([
      ['extensionDevelopmentPath', editor.remote(join(test, 'fake-model'))],
      ['extensionTestsPath', editor.remote(join(test, 'host/index.js'))],
      ['skipWelcome', 'true'],
    ]),
  });
  const ended = new Promise((resolve) => {
    setTimeout(resolve, TIMEOUT_MS, code).unref();
    void page.exposeFunction('codeAutomationExit', resolve);
  });
  await page.exposeFunction('codeAutomationLog', (_type, args) => {
    const line = args.join(' ');
    if (OURS.test(line)) console.log(line);
    else noise.push(line);
  });
  await go();
  code = await ended;
} finally {
  await editor.close();
}
if (code !== 0) {
  console.log([...noise, ...editor.log, `exit code: ${code}`].join('\n'));
  process.exitCode = 1;
}
