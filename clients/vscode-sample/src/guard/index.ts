/** The client library: everything that is not VS Code's. */

export { Connection, NotStarted, Unusable } from './connection.js';
export type { Listener } from './connection.js';
export { Controls } from './controls.js';
export type { Halt } from './controls.js';
export { capInWords, evidence } from './evidence.js';
export type { Line } from './evidence.js';
export { Guard, PATIENCE_MS, STARTS_WITHIN_MS } from './guard.js';
export type { GuardOptions, GuardState, UnguardedCause } from './guard.js';
export { inShort, isOfCap } from './inShort.js';
export { isByName, locate, NotLocated } from './locate.js';
export type { Places } from './locate.js';
export { runTurn, ToolError } from './loop.js';
export type { Agent, Answer, Decision, ModelRequest, ModelResponse, Outcome, ToolCall } from './loop.js';
export { label, shown } from './names.js';
export type * from './protocol.js';
export { Session } from './session.js';
export type { SessionOptions } from './session.js';
export { isSetIn, propertyOf, settingsSet } from './settings.js';
export type { Inspected } from './settings.js';
export { Trail } from './trail.js';
export type { Repeated } from './trail.js';
export { calls, conditionOf, CONDITIONS, phaseOf, sessionInWords, statusBar } from './words.js';
export type { Condition, Phase, Severity, TurnNow, Words } from './words.js';
