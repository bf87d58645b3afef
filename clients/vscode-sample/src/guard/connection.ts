/** One running daemon: its process, and typed requests over its stdin and stdout. */

import { spawn, type ChildProcess } from 'node:child_process';
import { homedir } from 'node:os';
import { createInterface } from 'node:readline';
import {
  createMessageConnection,
  ErrorCodes,
  ResponseError,
  StreamMessageReader,
  StreamMessageWriter,
} from 'vscode-jsonrpc/node';
import type { MessageConnection } from 'vscode-jsonrpc/node';
import { PROTOCOL_VERSION, type Methods, type Notifications, type Settings } from './protocol.js';

/** How long a daemon may take to answer `initialize`, and to end when it is asked to. */
const START_MS = 10_000;
const END_MS = 2_000;

/** What the daemon tells unasked. `message` is for the person, `log` for who reads logs. */
export interface Listener {
  session?(status: Notifications['turnguard/didChangeSession']): void;
  loop?(loop: Notifications['turnguard/didDetectLoop']): void;
  message?(text: string): void;
  log?(line: string): void;
}

/** A program that is no use however often it is started: `spoken` is its version of the protocol; undefined: it has none. */
export class Unusable extends Error {
  constructor(
    readonly program: string,
    readonly version: string,
    readonly spoken: number | undefined,
  ) {
    super(
      spoken === undefined
        ? `${program} is not turnguard`
        : `${program} is turnguard ${version} and speaks protocol ${spoken}, not ${PROTOCOL_VERSION}`,
    );
  }

  /** Whether the program is to be updated, and not we. */
  get isOlder(): boolean {
    return this.spoken !== undefined && this.spoken < PROTOCOL_VERSION;
  }
}

/** The daemon ended before it answered. */
export class Ended extends Error {}

interface InitializeResult {
  serverInfo?: { name?: string; version?: string };
  capabilities?: { experimental?: { turnguard?: { protocolVersion?: number } } };
}

export class Connection {
  /** Resolves when the process is gone, with words for why. */
  readonly ended: Promise<string>;
  version = '';

  private constructor(
    private readonly process: ChildProcess,
    private readonly rpc: MessageConnection,
    listener: Listener,
  ) {
    this.ended = new Promise((resolve) => {
      process.once('exit', (code, signal) =>
        resolve(signal === null ? `ended with code ${code ?? 0}` : `ended by ${signal}`),
      );
      process.once('error', (error) => resolve(error.message));
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
    createInterface({ input: child.stderr }).on('line', (line) => listener.log?.(line));
    const rpc = createMessageConnection(new StreamMessageReader(child.stdout), new StreamMessageWriter(child.stdin));
    const connection = new Connection(child, rpc, listener);
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
      await this.rpc.sendNotification('initialized', {});
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
      throw new Ended(`it ${await this.ended}`); // What could not be written could not be answered either.
    }
  }

  /** The settings of the person, for every session; they take the place of those sent before. */
  configure(settings: Settings): Promise<void> {
    return this.rpc.sendNotification('workspace/didChangeConfiguration', { settings: { turnguard: settings } });
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
