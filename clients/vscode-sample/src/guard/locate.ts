/** Where the daemon's program is: what the person named, else beside the Python interpreter, else on PATH. */

import { access, constants, readlink, realpath, stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import { delimiter, dirname, isAbsolute, join, parse, relative, resolve, sep } from 'node:path';

/** Links that are followed before a path counts as leading nowhere; Linux gives up there, too. */
const MAX_LINKS = 40;

export interface Places {
  /** What the person named, or empty. */
  named: string;
  /** The folders of the workspace, the first one first. */
  folders: readonly string[];
  /** Whether a program that the workspace names or contains may be started. */
  isTrusted: boolean;
  /** The Python interpreter that is selected. */
  interpreter?: string | undefined;
  pathVariable: string;
}

/** Why there is no program: the one that was named is in a workspace that is not trusted, or is none; or none was found. */
export class NotLocated extends Error {
  readonly why: 'untrusted' | 'noProgram' | 'nowhere';
  /** What was named. */
  readonly program: string;

  constructor(why: NotLocated['why'], program = '') {
    super(WHY[why](program));
    this.why = why;
    this.program = program;
  }
}

const WHY: Record<NotLocated['why'], (program: string) => string> = {
  untrusted: (program) => `${program} is in a workspace that is not trusted`,
  noProgram: (program) => `${program} is not a program`,
  nowhere: () => 'turnguard is neither beside the Python interpreter nor on PATH',
};

/** Gives the program. Rejects with `NotLocated`. */
export async function locate(places: Places): Promise<string> {
  if (places.named !== '') {
    const program = expanded(places.named, places.folders[0]);
    if (!(await mayStart(program, places))) throw new NotLocated('untrusted', program);
    if (await isProgram(program)) return program;
    throw new NotLocated('noProgram', program);
  }
  for (const program of candidates(places))
    if ((await isProgram(program)) && (await mayStart(program, places))) return program;
  throw new NotLocated('nowhere');
}

/** Whether it is this program that a shell with that PATH starts as `turnguard`. */
export async function isByName(program: string, pathVariable: string): Promise<boolean> {
  for (const found of onPath(pathVariable))
    if (await isProgram(found)) return (await real(found)) === (await real(program));
  return false;
}

const NAME = process.platform === 'win32' ? 'turnguard.exe' : 'turnguard';

function candidates(places: Places): string[] {
  // Which interpreter is selected can be a workspace's doing.
  const interpreter = places.isTrusted ? places.interpreter : undefined;
  const beside =
    interpreter === undefined ? [] : [join(dirname(interpreter), NAME), join(dirname(interpreter), 'Scripts', NAME)];
  return [...beside, ...onPath(places.pathVariable)];
}

function onPath(pathVariable: string): string[] {
  // A relative entry of PATH means whatever directory one happens to be in.
  const directories = pathVariable.split(delimiter).filter(isAbsolute);
  return directories.map((directory) => join(directory, NAME));
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

function expanded(named: string, folder: string | undefined): string {
  const program = named.replace(/^~(?=[/\\])/, homedir()).replaceAll('${workspaceFolder}', folder ?? '');
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
