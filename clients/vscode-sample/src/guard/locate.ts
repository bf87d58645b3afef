/** Where the daemon's program is: what the person named, else beside the Python interpreter, else on PATH. */

import { access, constants, readlink, realpath, stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import { delimiter, dirname, isAbsolute, join, parse, relative, resolve, sep } from 'node:path';

/** Links that are followed before a path counts as leading nowhere; Linux gives up there, too. */
const MAX_LINKS = 40;

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
    if (!(await mayStart(program, places))) throw new Error(`${program} is in the workspace, which is not trusted.`);
    if (await isProgram(program)) return program;
    throw new Error(`turnguard.path names ${program}, which is not a program. Correct it, or empty it to search.`);
  }
  for (const program of candidates(places))
    if ((await isProgram(program)) && (await mayStart(program, places))) return program;
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
  return [...beside, ...onPath];
}

/** Until the workspace is trusted, not what lies in it, nor what a link in it leads to, by whatever name either goes. */
async function mayStart(program: string, { isTrusted, folders }: Places): Promise<boolean> {
  if (isTrusted) return true;
  const roots = await Promise.all(folders.map(async (folder) => [folder, await real(folder)]));
  const places = await placesOnTheWay(program);
  return !roots.flat().some((root) => places.some((place) => isWithin(place, root)));
}

/** The path, and what it becomes as one link after the other is followed. */
async function placesOnTheWay(path: string): Promise<string[]> {
  const places = [path, await real(path)];
  let next: string | undefined = path;
  for (let links = 0; links < MAX_LINKS; links += 1) {
    next = await withFirstLinkFollowed(next);
    if (next === undefined) break;
    places.push(next);
  }
  return places;
}

async function withFirstLinkFollowed(path: string): Promise<string | undefined> {
  const { root } = parse(path);
  const names = path.slice(root.length).split(sep);
  for (let at = root, index = 0; index < names.length; index += 1) {
    at = join(at, names[index] ?? '');
    const target = await readlink(at).catch(() => undefined);
    if (target !== undefined) return join(resolve(dirname(at), target), ...names.slice(index + 1));
  }
  return undefined;
}

/** A path that does not exist stands for itself. */
function real(path: string): Promise<string> {
  return realpath(path).catch(() => path);
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
