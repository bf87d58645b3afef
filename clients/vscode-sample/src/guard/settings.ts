/**
 * What goes to the daemon of what an editor knows about settings: what somebody set, and nothing else.
 *
 * An editor answers a setting that nobody touched with a default, with 0 or with false. The daemon would take those for
 * the person's will: a cap that is off, detectors that are on.
 */

import type { Settings } from './protocol.js';
import { SETTING_NAMES } from './settingNames.js';

/** A part of what VS Code's `inspect()` gives. */
export interface Inspected {
  globalValue?: unknown;
  workspaceValue?: unknown;
  workspaceFolderValue?: unknown;
}

/** `person`: what the person set for themselves. `workspace`: what came with the folder; it may only tighten. */
export function settingsSet(inspect: (property: string) => Inspected | undefined): {
  person: Settings;
  workspace: Settings;
} {
  const person = {};
  const workspace = {};
  for (const [property, name] of Object.entries(SETTING_NAMES)) {
    const found = inspect(property);
    put(person, name, found?.globalValue);
    put(workspace, name, found?.workspaceFolderValue ?? found?.workspaceValue);
  }
  return { person, workspace };
}

/** What VS Code calls a setting of the daemon. */
export function propertyOf(name: string): string | undefined {
  return Object.keys(SETTING_NAMES).find((property) => SETTING_NAMES[property] === name);
}

/** Whether these settings have a value for a setting, by the daemon's name for it. */
export function isSetIn(settings: Settings | null | undefined, name: string): boolean {
  let at: unknown = settings;
  for (const section of name.split('.')) at = (at as Record<string, unknown> | null | undefined)?.[section];
  return at !== undefined && at !== null;
}

function put(settings: object, name: string, value: unknown): void {
  if (value === undefined || value === null) return;
  const path = name.split('.');
  const last = path.pop() ?? name;
  let at = settings as Record<string, unknown>;
  for (const section of path) at = (at[section] ??= {}) as Record<string, unknown>;
  at[last] = value;
}
