/** One running daemon: its process, and typed requests over its stdin and stdout. */

import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process';
import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { basename } from 'node:path';
import { createInterface } from 'node:readline';
import {
  createMessageConnection,
  ErrorCodes,
  ResponseError,
  StreamMessageReader,
  StreamMessageWriter,
} from 'vscode-jsonrpc/node';
import type { MessageConnection } from 'vscode-jsonrpc/node';
import { shown } from './names.js';
import { PROTOCOL_VERSION, type Methods, type Notifications, type Settings } from './protocol.js';

/** How long a daemon may take to answer `initialize`, and to end when it is asked to. */
const START_MS = 10_000;
const END_MS = 2_000;
/** How long its last words are waited for once it has ended: who it started may keep its stderr open. */
const LAST_WORDS_MS = 200;
/** Characters of them. */
const MAX_LAST_WORDS = 200;

/** What the daemon tells unasked. `message` is for the person, `log` for who reads logs. */
export interface Listener {
  session?(status: Notifications['turnguard/didChangeSession']): void;
  loop?(loop: Notifications['turnguard/didDetectLoop']): void;
  message?(text: string): void;
  log?(line: string): void;
}

/** A program that is no use however often it is started: `spoken` is its version of the protocol; undefined: it has none. */
export class Unusable extends Error {
  readonly program: string;
  readonly version: string;
  readonly spoken: number | undefined;

  constructor(program: string, version: string, spoken: number | undefined) {
    super(
      spoken === undefined
        ? `${program} is not turnguard`
        : `${program} is turnguard ${version} and speaks protocol ${spoken}, not ${PROTOCOL_VERSION}`,
    );
    this.program = program;
    this.version = version;
    this.spoken = spoken;
  }

  /** Whether the program is to be updated, and not we. */
  get isOlder(): boolean {
    return this.spoken !== undefined && this.spoken < PROTOCOL_VERSION;
  }
}

/** A program that the operating system does not start. */
export class NotStarted extends Error {
  constructor(program: string, { code = '' }: NodeJS.ErrnoException) {
    super(whyNotStarted(program, code));
  }
}

/** A program with a path is there and is "not found" all the same when the interpreter in its first line is missing. */
function whyNotStarted(program: string, code: string): string {
  const isPath = basename(program) !== program;
  if (code === 'ENOENT' && !isPath) return `${program} was not found on PATH`;
  if (code === 'ENOENT' && existsSync(program))
    return `${program} cannot be started: what its first line names is gone`;
  if (code === 'ENOENT') return `${program} was not found`;
  if (code === 'EACCES') return `${program} may not be executed`;
  return `${program} could not be started (${code})`;
}

/** The daemon ended before it answered. */
export class Ended extends Error {
  /** What it wrote to stderr last. */
  readonly lastWords: string;

  constructor(message: string, lastWords: string) {
    super(message);
    this.lastWords = lastWords;
  }
}

interface InitializeResult {
  serverInfo?: { name?: string; version?: string };
  capabilities?: { experimental?: { turnguard?: { protocolVersion?: number } } };
}

export class Connection {
  /** Resolves when the process is gone, with words for why. */
  readonly ended: Promise<string>;
  version = '';
  /** What it wrote to stderr last; all of it when it has ended. */
  lastWords = '';
  private readonly process: ChildProcessWithoutNullStreams;
  private readonly rpc: MessageConnection;
  private notStarted: NotStarted | undefined;

  private constructor(program: string, process: ChildProcessWithoutNullStreams, listener: Listener) {
    this.process = process;
    const rpc = createMessageConnection(
      new StreamMessageReader(process.stdout),
      new StreamMessageWriter(process.stdin),
    );
    this.rpc = rpc;
    const stderr = createInterface({ input: process.stderr });
    stderr.on('line', (line) => {
      if (line.trim() !== '') this.lastWords = shown(line.trim(), MAX_LAST_WORDS);
      listener.log?.(line);
    });
    this.ended = new Promise((resolve) => {
      process.once('exit', (code, signal) => {
        const reason = signal === null ? `ended with code ${code ?? 0}` : `ended by ${signal}`;
        const timer = setTimeout(resolve, LAST_WORDS_MS, reason);
        process.once('close', () => {
          clearTimeout(timer);
          resolve(reason);
        });
      });
      process.once('error', (error) => {
        this.notStarted = new NotStarted(program, error);
        resolve('was not started');
      });
    });
    void this.ended.then(() => rpc.dispose());
    rpc.onError(([error]) => listener.log?.(`connection: ${error.message}`));
    rpc.onNotification('turnguard/didChangeSession', (status: Notifications['turnguard/didChangeSession']) =>
      listener.session?.(status),
    );
    rpc.onNotification('turnguard/didDetectLoop', (loop: Notifications['turnguard/didDetectLoop']) =>
      listener.loop?.(loop),
    );
    rpc.onNotification('window/showMessage', ({ message }: { message: string }) => listener.message?.(message));
    rpc.onNotification('window/logMessage', ({ message }: { message: string }) => listener.log?.(message));
    rpc.listen();
  }

  get pid(): number | undefined {
    return this.process.pid;
  }

  /** Starts `command` and shakes hands. Throws `Unusable` for a program that does not speak our protocol. */
  static async start(
    command: readonly string[],
    listener: Listener,
    signal: AbortSignal,
    startMs = START_MS,
  ): Promise<Connection> {
    signal.throwIfAborted();
    const [program = '', ...args] = command;
    // At home: the daemon needs no working directory, and should not keep a workspace from being renamed.
    const child = spawn(program, args, { cwd: homedir(), stdio: 'pipe', windowsHide: true });
    // Writing to a process that is gone is no news: `ended` says so.
    child.stdin.on('error', () => undefined);
    const connection = new Connection(program, child, listener);
    const kill = () => connection.kill();
    signal.addEventListener('abort', kill);
    try {
      await connection.initialize(program, startMs);
      return connection;
    } catch (error) {
      connection.kill();
      throw error;
    } finally {
      signal.removeEventListener('abort', kill);
    }
  }

  private async initialize(program: string, startMs: number): Promise<void> {
    const params = { processId: process.pid, rootUri: null, capabilities: {} };
    const { promise: silence, cancel } = rejectAfter(startMs, `${program} does not answer`);
    try {
      const answer = await Promise.race([this.send<InitializeResult>('initialize', params), silence]);
      this.version = answer.serverInfo?.version ?? 'of an unknown version';
      const spoken = answer.capabilities?.experimental?.turnguard?.protocolVersion;
      if (spoken !== PROTOCOL_VERSION) throw new Unusable(program, this.version, spoken);
      await this.notify('initialized', {});
    } finally {
      cancel();
    }
  }

  /** Rejects with the daemon's error, or with `Ended`. */
  request<M extends keyof Methods>(method: M, params: Methods[M]['params']): Promise<Methods[M]['result']> {
    return this.send(method, params);
  }

  private async send<T>(method: string, params: unknown): Promise<T> {
    try {
      return await this.rpc.sendRequest<T>(method, params);
    } catch (error) {
      if (error instanceof ResponseError && error.code !== ErrorCodes.PendingResponseRejected) throw error;
      throw await this.end(); // What could not be written could not be answered either.
    }
  }

  private async notify(method: string, params: unknown): Promise<void> {
    try {
      await this.rpc.sendNotification(method, params);
    } catch {
      throw await this.end();
    }
  }

  /** Why it ended, which is known a moment after it can no longer be written to. One that closed its stdin has to end. */
  private async end(): Promise<Ended | NotStarted> {
    const timer = setTimeout(() => this.kill(), END_MS);
    const reason = await this.ended;
    clearTimeout(timer);
    return this.notStarted ?? new Ended(`it ${reason}`, this.lastWords);
  }

  /** The settings of the person, for every session; they take the place of those sent before. */
  configure(settings: Settings): Promise<void> {
    return this.notify('workspace/didChangeConfiguration', { settings: { turnguard: settings } });
  }

  /** Ends the daemon as the protocol says, and by force when that takes too long. */
  async close(): Promise<void> {
    const timer = setTimeout(() => this.kill(), END_MS);
    try {
      await this.rpc.sendRequest('shutdown');
      await this.rpc.sendNotification('exit');
    } catch {
      this.kill();
    }
    await this.ended;
    clearTimeout(timer);
  }

  kill(): void {
    this.process.kill('SIGKILL');
  }
}

function rejectAfter(ms: number, why: string): { promise: Promise<never>; cancel: () => void } {
  let timer: NodeJS.Timeout | undefined;
  const promise = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(why)), ms);
  });
  promise.catch(() => undefined);
  return { promise, cancel: () => clearTimeout(timer) };
}
