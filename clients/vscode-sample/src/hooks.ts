/** Hooks of VS Code's own agent, whose calls no extension can see: the configuration is shown, then written. */

import { execFile } from 'node:child_process';
import { sep } from 'node:path';
import { promisify } from 'node:util';
import * as vscode from 'vscode';
import { findProgram } from './daemon';
import { isByName, NotStarted } from './guard';

const SCHEME = 'turnguard-hooks';
const WRITE = 'Write';
const SHOW_OUTPUT = 'Show Output';

/** What there is to tell of hooks that were written; `careful`: why they may not work. */
export interface Written {
  told: string;
  careful: string;
}

type Log = Pick<vscode.LogOutputChannel, 'info' | 'error'>;

/** The command: for the folder of the window, told in notifications. */
export async function installHook(log: vscode.LogOutputChannel): Promise<void> {
  const folders = vscode.workspace.workspaceFolders ?? [];
  const folder = folders.length > 1 ? await vscode.window.showWorkspaceFolderPick() : folders[0];
  if (folder?.uri.scheme !== 'file') {
    void vscode.window.showInformationMessage('Open a folder first: hooks of VS Code are kept in one.');
    return;
  }
  try {
    const written = await writeHooks(folder, askInModal, log);
    if (written !== undefined) await tell(written, log);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    showOutputIf(await vscode.window.showErrorMessage(`The hooks were not written. ${why}`, SHOW_OUTPUT), log);
  }
}

/** A notification without a button is one line, and what does not fit is cut off. */
async function tell({ told, careful }: Written, log: vscode.LogOutputChannel): Promise<void> {
  if (careful === '') void vscode.window.showInformationMessage(told);
  else showOutputIf(await vscode.window.showWarningMessage(`${told} ${careful}`, SHOW_OUTPUT), log);
}

function showOutputIf(choice: string | undefined, log: vscode.LogOutputChannel): void {
  if (choice === SHOW_OUTPUT) log.show();
}

type Ask = (question: string, detail: string) => Promise<boolean>;

async function askInModal(question: string, detail: string): Promise<boolean> {
  return (await vscode.window.showInformationMessage(question, { modal: true, detail }, WRITE)) === WRITE;
}

/**
 * Shows the hooks, asks, and writes them into the folder, beside what is there. Gives what turnguard says of it;
 * undefined: they were not wanted. Rejects, with words, where turnguard is not found or does not change what is there.
 *
 * The hooks run `turnguard` by its name, as others who open the folder have it elsewhere; where PATH does not give the
 * one that was found, they run that one by its path.
 */
export async function writeHooks(folder: vscode.WorkspaceFolder, ask: Ask, log: Log): Promise<Written | undefined> {
  const program = await findProgram();
  const byName = await isByName(program, process.env.PATH ?? '');
  const args = ['hook', 'install', 'vscode', '--project', folder.uri.fsPath, ...(byName ? [] : ['--absolute'])];
  const { stdout, lines } = await run(program, args, log);
  await show(stdout);
  const question = `Guard VS Code's own agent in ${folder.name}, with the hooks that are shown?`;
  const where = shortened(lines.at(-1) ?? '', folder).replace(/; --write .*$/, '.');
  const path = byName ? '' : 'They hold the path of the turnguard of this machine, so they work on no other.';
  const detail = [where, 'What is in that file already stays.', path, carefulOf(lines)];
  if (!(await ask(question, detail.filter(Boolean).join(' ')))) return undefined;
  const written = await run(program, [...args, '--write'], log);
  const [told = ''] = linesOf(written.stdout);
  return { told: shortened(told, folder), careful: carefulOf(written.lines) };
}

function shortened(line: string, folder: vscode.WorkspaceFolder): string {
  return line.replace(folder.uri.fsPath + sep, '');
}

function carefulOf(lines: readonly string[]): string {
  return lines.find((line) => line.startsWith('Careful: ')) ?? '';
}

/** To read, not to edit: it is turnguard that writes it, beside what is in the file already. */
async function show(content: string): Promise<void> {
  const provider = vscode.workspace.registerTextDocumentContentProvider(SCHEME, {
    provideTextDocumentContent: () => content,
  });
  try {
    const uri = vscode.Uri.from({ scheme: SCHEME, path: '/turnguard.json', query: String(Date.now()) });
    await vscode.window.showTextDocument(await vscode.workspace.openTextDocument(uri));
  } finally {
    provider.dispose();
  }
}

/**
 * What the program says, `lines` on stderr. Of one that fails the last line is the reason, and all of them are in the
 * output; Node's words would only be how it was called.
 */
async function run(program: string, args: string[], log: Log): Promise<{ stdout: string; lines: string[] }> {
  log.info(`running: ${[program, ...args].join(' ')}`);
  try {
    const { stdout, stderr } = await promisify(execFile)(program, args);
    for (const line of [...(args.includes('--write') ? linesOf(stdout) : []), ...linesOf(stderr)]) log.info(line);
    return { stdout, lines: linesOf(stderr) };
  } catch (error) {
    const failed = error as NodeJS.ErrnoException & { stderr?: string };
    const lines = linesOf(failed.stderr ?? '');
    for (const line of lines) log.error(line);
    throw new Error(lines.at(-1) ?? whyFailed(program, failed), { cause: error });
  }
}

/** `code` is the exit code of a program that ran, and a word where it did not. */
function whyFailed(program: string, error: NodeJS.ErrnoException): string {
  const code: unknown = error.code;
  return typeof code === 'string'
    ? `${new NotStarted(program, error).message}.`
    : `It ended with code ${String(code)}.`;
}

function linesOf(text: string): string[] {
  return text
    .split('\n')
    .map((line) => line.trim())
    .filter(Boolean);
}
