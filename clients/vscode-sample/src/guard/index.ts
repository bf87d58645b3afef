/** The client library: everything that is not VS Code's. */

export { Connection, Unusable } from './connection';
export type { Listener } from './connection';
export { Controls } from './controls';
export type { Halt } from './controls';
export { Guard, PATIENCE_MS, STARTS_WITHIN_MS } from './guard';
export type { GuardOptions, GuardState } from './guard';
export { locate } from './locate';
export type { Places } from './locate';
export { runTurn, ToolError } from './loop';
export type { Agent, Answer, Decision, ModelRequest, ModelResponse, Outcome, ToolCall } from './loop';
export type * from './protocol';
export { Session } from './session';
export type { SessionOptions } from './session';
export { settingsSet } from './settings';
export type { Inspected } from './settings';
export { Trail } from './trail';
export type { Repeated } from './trail';
export * from './words';
