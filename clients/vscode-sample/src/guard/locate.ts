/** Where the daemon's program is: what the person named, else beside the Python interpreter, else on PATH. */

import { access, constants, stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import { delimiter, dirname, isAbsolute, join, relative } from 'node:path';

export interface Places {
  /** `turnguard.path`, or empty. */
  setting: string;
  /** The folders of the workspace, the first one first. */
  folders: readonly string[];
  /** Whether a program that the workspace names or contains may be started. */
  isTrusted: boolean;
  /** The Python interpreter that is selected. */
  interpreter?: string | undefined;
  pathVariable: string;
}

/** Gives the program. Rejects with words that say where it was looked for and what to do. */
export async function locate(places: Places): Promise<string> {
  if (places.setting !== '') {
    const program = expanded(places.setting, places.folders[0]);
    if (!mayStart(program, places)) throw new Error(`${program} is in the workspace, which is not trusted.`);
    if (await isProgram(program)) return program;
    throw new Error(`turnguard.path names ${program}, which is not a program. Correct it, or empty it to search.`);
  }
  for (const program of candidates(places)) if (await isProgram(program)) return program;
  throw new Error(
    'turnguard was found neither beside the Python interpreter nor on PATH. Install it (pip install turnguard), or set turnguard.path.',
  );
}

function candidates(places: Places): string[] {
  const name = process.platform === 'win32' ? 'turnguard.exe' : 'turnguard';
  // Which interpreter is selected can be a workspace's doing.
  const interpreter = places.isTrusted ? places.interpreter : undefined;
  const beside =
    interpreter === undefined ? [] : [join(dirname(interpreter), name), join(dirname(interpreter), 'Scripts', name)];
  // A relative entry of PATH means whatever directory one happens to be in.
  const onPath = places.pathVariable
    .split(delimiter)
    .filter(isAbsolute)
    .map((directory) => join(directory, name));
  return [...beside, ...onPath].filter((program) => mayStart(program, places));
}

function mayStart(program: string, { isTrusted, folders }: Places): boolean {
  return isTrusted || !folders.some((folder) => isWithin(program, folder));
}

function expanded(setting: string, folder: string | undefined): string {
  const program = setting.replace(/^~(?=[/\\])/, homedir()).replaceAll('${workspaceFolder}', folder ?? '');
  return isAbsolute(program) ? program : join(folder ?? homedir(), program);
}

function isWithin(path: string, folder: string): boolean {
  const way = relative(folder, path);
  return !isAbsolute(way) && way !== '..' && !way.startsWith(join('..', '/'));
}

async function isProgram(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK);
    return (await stat(path)).isFile();
  } catch {
    return false;
  }
}
