// Made by `npm run generate` from protocol/schema/turnguard.schema.json. Do not edit.

/**
 * What the host must do, from mildest to strictest.
 *
 * `allow`: go on. `warn`: go on, and tell. `restrict`: the next step gets no tools. `block`: at least one call of this
 * batch must not run, the turn goes on. `halt`: the turn is over.
 */
export type Action = 'allow' | 'block' | 'halt' | 'restrict' | 'warn';
export type Event =
  | TurnStarted
  | ToolCalls
  | ToolResults
  | CallRekeyed
  | Text
  | Thought
  | StepFinished
  | Retry
  | Fallback
  | Compacted
  | StateChanged
  | UserInput
  | TurnEnded;

/**
 * One agent of OpenClaw's `agents.list`: settings that hold in sessions of this `agentId` over the global ones.
 */
export interface AgentSettings {
  id: string;
  tools?: ToolsSettings | null;
}
/**
 * OpenClaw's `tools`.
 */
export interface ToolsSettings {
  loopDetection?: LoopDetectionSettings | null;
}
/**
 * OpenClaw's `tools.loopDetection`.
 *
 * Raises ValueError when thresholds that one block gives are not in the order warning < critical < circuit breaker.
 */
export interface LoopDetectionSettings {
  criticalThreshold?: number | null;
  detectors?: DetectorSettings | null;
  enabled?: boolean | null;
  globalCircuitBreakerThreshold?: number | null;
  historySize?: number | null;
  postCompactionGuard?: PostCompactionGuardSettings | null;
  unknownToolThreshold?: number | null;
  warningThreshold?: number | null;
}
/**
 * OpenClaw's `tools.loopDetection.detectors`: which patterns are looked for.
 */
export interface DetectorSettings {
  genericRepeat?: boolean | null;
  knownPollNoProgress?: boolean | null;
  pingPong?: boolean | null;
}
/**
 * OpenClaw's `tools.loopDetection.postCompactionGuard`. `window_size`: equal calls after a compaction that halt.
 */
export interface PostCompactionGuardSettings {
  windowSize?: number | null;
}
/**
 * OpenClaw's `agents`.
 */
export interface AgentsSettings {
  list?: AgentSettings[] | null;
}
/**
 * An override that holds for the turn at hand. `calls`: by how many calls it raised the cap.
 */
export interface AppliedOverride {
  action: 'continueOnce' | 'disable' | 'enable' | 'raiseCap';
  calls?: number;
}
/**
 * A tool call the model asks for.
 *
 * `name` None: the model gave none. `args` is any JSON, absent means `{}`; `key` is an identity made elsewhere and
 * excludes `args`. `hint` is the program and subcommand of a shell call, or the sub-command of a multi-command tool.
 *
 * Raises ValueError when both `args` and `key` are given.
 */
export interface Call {
  args?: unknown;
  facts?: Facts | null;
  fidelity?: 'full' | 'low' | 'none';
  hint?: string | null;
  id?: string | null;
  key?: string | Keys | null;
  name: string | null;
}
/**
 * What guards need to know of a call or a result besides its identity, derived while the arguments are at hand.
 *
 * Of calls: `git_overview`, the command only looks at the state of a git repository; `read_like`, the tool only reads;
 * `poll`, the call asks for the state of something that runs; `action`, the `action` argument of a `process` or
 * `message` call where it is a word that OpenClaw treats apart; `target`, what an envelope calls; `blind`, nobody will
 * ever be told what the result of the call says, which only the host can know, beside `args` too. Of results:
 * `unknown_tool`, the name of a tool that does not exist, as the error text gives it, in lower case.
 */
export interface Facts {
  action?: string | null;
  blind?: boolean;
  gitOverview?: boolean;
  poll?: boolean;
  readLike?: boolean;
  target?: Target | null;
  unknownTool?: string | null;
}
/**
 * What a `tool_call` envelope really calls: the inner tool's name and its repeat key.
 */
export interface Target {
  key: string;
  name: string;
}
/**
 * The identity of a call where the guards define it differently; a plain string stands for all of them.
 *
 * `turn` is Qwen Code's repeat key (64 hex digits), `rolling` OpenClaw's arguments hash.
 */
export interface Keys {
  rolling?: string | null;
  turn: string;
}
/**
 * The identity of an earlier call of the open turn became known, or changed; the call is told by its id.
 *
 * It counts from now on as if it had come with this identity, and no more calls than before. `name` None: the call
 * keeps its name. `args`, `key`, `fidelity`, `hint` and `facts` are those of a `Call`, and take the place of the old
 * ones.
 *
 * Raises ValueError unless exactly one of `args` and `key` is given.
 */
export interface CallRekeyed {
  args?: unknown;
  facts?: Facts | null;
  fidelity?: 'full' | 'low' | 'none';
  hint?: string | null;
  id: string;
  key?: string | Keys | null;
  name?: string | null;
  type: 'callRekeyed';
}
/**
 * The tool-call cap of the turn in force, raises included. `value` None: switched off.
 */
export interface Cap {
  explicit: boolean;
  value: number | null;
}
/**
 * Ends the open turn and forgets the session.
 */
export interface CloseSession {
  sessionId: string;
}
/**
 * The context was compacted and the run retries.
 */
export interface Compacted {
  type: 'compacted';
}
/**
 * The notification `turnguard/didDetectLoop`: a fresh finding of warn or worse.
 */
export interface DidDetectLoop {
  finding: Finding;
  sessionId: string;
  turnId: string;
  verdict: Verdict;
}
/**
 * What one guard says.
 *
 * `loop_type` is the name the seeds give the loop, `reason` what exactly fired. `count` was reached where `threshold`
 * is allowed or asked for. `fresh` is False when the finding only repeats what was already said in this episode.
 * `key_digest` is keyed with a salt that stays in this installation. `setting` is the one setting that governs,
 * `setting_source` the file that set it, where a file did.
 */
export interface Finding {
  action: Action;
  count: number;
  fresh?: boolean;
  guard: string;
  keyDigest?: string;
  loopType: string;
  pairedTool?: string;
  reason?: string;
  runId?: string;
  setting?: string;
  settingSource?: string;
  threshold: number;
  tool?: string;
}
/**
 * The answer to `turnguard/record`.
 *
 * `admitted` is authoritative: exactly these indexes of the batch may run, whatever the action. `user_message` is for
 * the person and names the setting that governs; `model_message` is for the model's next request and never does.
 * `notices` are for the person too, each told once: settings that were ignored, and settings that have changed.
 */
export interface Verdict {
  action: Action;
  admitted: number[];
  findings: Finding[];
  modelMessage?: string;
  notices?: string[];
  totals: Totals;
  turnId: string;
  userMessage?: string;
}
/**
 * What the turn has seen so far.
 *
 * `tool_calls` and `distinct_keys` count calls that were asked for, refused ones included, as Qwen Code does.
 */
export interface Totals {
  distinctKeys: number;
  maxKeyRepeat: number;
  maxKeyTool?: string;
  steps: number;
  toolCalls: number;
}
/**
 * A new turn: a fresh budget, and a halt is lifted. Ends an open turn as completed.
 *
 * `origin` is an open string: `user` (default), `hook`, `cron`, `notification`, `channel`, `goal`.
 */
export interface TurnStarted {
  origin?: string;
  turnId?: string | null;
  type: 'turnStarted';
}
/**
 * The calls of one model response, before any of them runs.
 *
 * With the stream guard one response may come in several of these. `run_id` absent: the turn's id; None: no run.
 */
export interface ToolCalls {
  /**
   * @maxItems 10000
   */
  calls: Call[];
  runId?: string | null;
  type: 'toolCalls';
}
/**
 * Outcomes of calls, as they come. `run_id` as in `ToolCalls`.
 */
export interface ToolResults {
  /**
   * @maxItems 10000
   */
  results: Result[];
  runId?: string | null;
  type: 'toolResults';
}
/**
 * What became of a call; paired by `id`, else by name and arguments.
 *
 * `ok`: the tool is known to have succeeded or failed, None when the host does not say; an `error` implies False.
 * `output` and `error` are any JSON and their presence has meaning: `null` is a result, absence is none. `outcome` is
 * an identity made elsewhere and excludes both. `duplicate`: the provider sent the call twice and this answers the
 * copy. `error_type` is an open string; well known are `invalid_params`, `unknown_tool`, `execution`, `denied`,
 * `cancelled`.
 *
 * Raises ValueError when `outcome` comes with `output` or `error`, or `key` with `args`.
 */
export interface Result {
  args?: unknown;
  duplicate?: boolean;
  error?: unknown;
  errorType?: string | null;
  facts?: Facts | null;
  id?: string | null;
  key?: string | Keys | null;
  name?: string | null;
  ok?: boolean | null;
  outcome?: string | Outcomes | null;
  output?: unknown;
  status?: 'cancelled' | 'done' | 'notStarted' | 'unknown';
}
/**
 * The identity of a result where the guards define it differently; a plain string stands for all of them.
 *
 * `read` is Qwen Code's fingerprint of a stateful read, `rolling` OpenClaw's result hash, `progress` the digest of the
 * masked result text. `None`: that guard has no identity for this result.
 */
export interface Outcomes {
  progress?: string | null;
  read?: string | null;
  rolling?: string | null;
}
/**
 * A piece of the answer the model writes. Identified: `length` in UTF-16 units in place of `delta`.
 */
export interface Text {
  delta?: string | null;
  length?: number | null;
  type: 'text';
}
/**
 * A piece of the model's reasoning. Identified: `length` of subject and description together, in UTF-16 units.
 */
export interface Thought {
  description?: string;
  length?: number | null;
  subject?: string;
  type: 'thought';
}
/**
 * The step is over: its response ended cleanly and every admitted call has a result or was refused.
 */
export interface StepFinished {
  type: 'stepFinished';
}
/**
 * The failed response is streamed again. `continuation`: it resumes where it broke off.
 */
export interface Retry {
  continuation?: boolean;
  type: 'retry';
}
/**
 * The response starts again on another model.
 */
export interface Fallback {
  type: 'fallback';
}
/**
 * The host's state machine moved to `state`.
 */
export interface StateChanged {
  state: string;
  type: 'stateChanged';
}
/**
 * The user spoke inside the turn; does not reset it. `queued`: the words wait for the turn to end.
 */
export interface UserInput {
  queued?: boolean;
  type: 'userInput';
}
/**
 * The turn is over.
 */
export interface TurnEnded {
  outcome?: 'cancelled' | 'completed' | 'failed';
  type: 'turnEnded';
}
/**
 * Asks which settings hold, for a session or for one that would be opened now.
 */
export interface GetSettings {
  sessionId?: string | null;
}
/**
 * Asks how a session stands.
 */
export interface GetStatus {
  sessionId: string;
}
/**
 * A value that some layer gave and that does not hold, and why.
 */
export interface IgnoredValue {
  origin: string;
  value: unknown;
  why: string;
}
/**
 * `initializationOptions` of `initialize`.
 */
export interface InitializationOptions {
  settings?: Settings | null;
}
/**
 * All settings, as a client sends them.
 */
export interface Settings {
  agents?: AgentsSettings | null;
  loopShield?: LoopShieldSettings | null;
  model?: ModelSettings | null;
  tools?: ToolsSettings | null;
  turnguard?: TurnguardSettings | null;
}
/**
 * loopShield's names, and `admission`, ours: whether a batch may overshoot the budget or each call must fit.
 *
 * `states`: the tools of each state; without states it is a plain budget.
 */
export interface LoopShieldSettings {
  admission?: ('batch' | 'call') | null;
  enabled?: boolean | null;
  fallbackState?: string | null;
  initialState?: string | null;
  maxConsecutiveTools?: number | null;
  mode?: ('consecutive' | 'repeated') | null;
  states?: {
    [k: string]: string[];
  } | null;
}
/**
 * Qwen Code's names.
 *
 * `max_tool_calls_per_turn`: a hard cap on the tool calls of a turn; 0 or less: no cap; not set: the adaptive default.
 * `skip_loop_detection`: leave out the detectors that are prone to false alarms.
 */
export interface ModelSettings {
  maxToolCallsPerTurn?: number | null;
  skipLoopDetection?: boolean | null;
}
/**
 * Our own names.
 *
 * `turn_guard`: which of Qwen Code's two turn guards runs, the daemon's mirror (`batch`) or the core client's
 * (`stream`). `repeated_failures`: what the repeated-failure guard does, as in Qwen Code's daemon. `admission`:
 * whether a batch that crosses the cap is refused whole or the calls that still fit run. `max_blocks_per_turn`: a turn
 * whose batches were blocked so often ends; 0: never. `max_steps_per_turn`: model responses a turn. `shadow`: report
 * everything and stop nothing.
 */
export interface TurnguardSettings {
  admission?: ('batch' | 'call') | null;
  maxBlocksPerTurn?: number | null;
  maxStepsPerTurn?: number | null;
  progress?: ProgressSettings | null;
  repeatedFailures?: ('enforce' | 'off' | 'shadow' | 'warn') | null;
  shadow?: boolean | null;
  turnGuard?: ('batch' | 'stream') | null;
}
/**
 * The progress guard. `action`: what it does when a turn shows nothing new any more.
 */
export interface ProgressSettings {
  action?: ('halt' | 'off' | 'warn') | null;
}
/**
 * Asks for all sessions.
 */
export interface ListSessions {}
/**
 * The answer to `turnguard/prepareStep`: what the next model request may use. `active_tools` None: all of them.
 */
export interface NextStep {
  activeTools: string[] | null;
  state: string | null;
  toolChoice: 'auto' | 'none';
}
/**
 * Opens a session, or returns the status of the one that is open under this id.
 *
 * `settings` are the user's own; `workspace_settings` come from files a repository can write and may only tighten.
 */
export interface OpenSession {
  agentId?: string | null;
  cwd?: string | null;
  sessionId?: string | null;
  settings?: Settings | null;
  workspaceSettings?: Settings | null;
}
/**
 * Gets past a halt, or switches the guards off or on. `calls`: by how many calls `raiseCap` raises.
 */
export interface Override {
  action: 'continueOnce' | 'disable' | 'enable' | 'raiseCap';
  calls?: number | null;
  sessionId: string;
  turnId?: string | null;
}
/**
 * `data` of error -32602: where the params do not fit, and how.
 */
export interface PathError {
  message: string;
  path: string;
}
/**
 * Asks what the next model request may use.
 */
export interface PrepareStep {
  sessionId: string;
}
/**
 * Tells what happened, in order. At most one `toolCalls` event, and last.
 */
export interface Record {
  /**
   * @maxItems 10000
   */
  events: (
    | TurnStarted
    | ToolCalls
    | ToolResults
    | CallRekeyed
    | Text
    | Thought
    | StepFinished
    | Retry
    | Fallback
    | Compacted
    | StateChanged
    | UserInput
    | TurnEnded
  )[];
  sessionId: string;
}
/**
 * `capabilities.experimental.turnguard` in the answer to `initialize`.
 */
export interface ServerCapability {
  methods: string[];
  protocolVersion: number;
}
/**
 * The answer to `turnguard/listSessions`.
 */
export interface SessionList {
  sessions: SessionStatus[];
}
/**
 * How a session stands.
 *
 * `blind`: guards that were told no outcome in this turn; all they can go by is how often a call comes in a row whose
 * `facts` say that its results are never shown.
 */
export interface SessionStatus {
  agentId?: string;
  blind?: string[];
  budgetState?: string;
  cap: Cap;
  cwd?: string;
  lastFinding?: Finding;
  overrides: AppliedOverride[];
  sessionId: string;
  state: 'disabled' | 'halted' | 'idle' | 'running';
  totals: Totals;
  turnId?: string;
}
/**
 * One setting: its dotted name, the value in force, the layer it came from, and the file that is that layer.
 */
export interface SettingValue {
  ignored?: IgnoredValue[];
  name: string;
  origin: string;
  source?: string;
  value: unknown;
}
/**
 * Something in a settings file, a variable or a command line that could not be taken; the rest of it holds.
 *
 * `origin`: which layer. `source`: the file's path, or the name of the variable or option. `path`: where in it, as
 * `$.model.maxToolCallsPerTurn`. `value`: what stands there, where that is short. `message`: what is wrong and what
 * is allowed.
 */
export interface SettingsProblem {
  line?: number;
  message: string;
  origin: string;
  path: string;
  source: string;
  value?: unknown;
}
/**
 * The answer to `turnguard/settings`. `problems`: what the sources of settings hold that could not be taken.
 */
export interface SettingsReport {
  problems?: SettingsProblem[];
  values: SettingValue[];
}
/**
 * What a closed session's last turn came to.
 */
export interface TurnSummary {
  findings: Finding[];
  outcome: 'cancelled' | 'completed' | 'failed';
  totals: Totals;
  turnId: string;
}

export const PROTOCOL_VERSION = 1;

/** Requests: what they take and what they are answered with. */
export interface Methods {
  'turnguard/closeSession': { params: CloseSession; result: TurnSummary | null };
  'turnguard/listSessions': { params: ListSessions; result: SessionList };
  'turnguard/openSession': { params: OpenSession; result: SessionStatus };
  'turnguard/override': { params: Override; result: SessionStatus };
  'turnguard/prepareStep': { params: PrepareStep; result: NextStep };
  'turnguard/record': { params: Record; result: Verdict };
  'turnguard/settings': { params: GetSettings; result: SettingsReport };
  'turnguard/status': { params: GetStatus; result: SessionStatus };
}

/** What the daemon tells unasked. */
export interface Notifications {
  'turnguard/didChangeSession': SessionStatus;
  'turnguard/didDetectLoop': DidDetectLoop;
}
