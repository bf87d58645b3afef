/** Hooks of VS Code's own agent, whose calls no extension can see: the configuration is shown, then written. */

import { execFile } from 'node:child_process';
import { sep } from 'node:path';
import { promisify } from 'node:util';
import * as vscode from 'vscode';
import { findProgram } from './daemon';

const SCHEME = 'turnguard-hooks';
const WRITE = 'Write';

/** The command: for the folder of the window, told in notifications. */
export async function installHook(): Promise<void> {
  const folders = vscode.workspace.workspaceFolders ?? [];
  const folder = folders.length > 1 ? await vscode.window.showWorkspaceFolderPick() : folders[0];
  if (folder?.uri.scheme !== 'file') {
    void vscode.window.showInformationMessage('Open a folder first: hooks of VS Code are kept in one.');
    return;
  }
  try {
    const told = await writeHooks(folder, askInModal);
    if (told !== undefined) void vscode.window.showInformationMessage(told);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    void vscode.window.showErrorMessage(`The hooks were not written. ${why}`);
  }
}

type Ask = (question: string, detail: string) => Promise<boolean>;

async function askInModal(question: string, detail: string): Promise<boolean> {
  return (await vscode.window.showInformationMessage(question, { modal: true, detail }, WRITE)) === WRITE;
}

/**
 * Shows the hooks, asks, and writes them into the folder, beside what is there. Gives what turnguard says of it;
 * undefined: they were not wanted. Rejects, with words, where turnguard is not found or does not change what is there.
 */
export async function writeHooks(folder: vscode.WorkspaceFolder, ask: Ask): Promise<string | undefined> {
  const program = await findProgram();
  const args = ['hook', 'install', 'vscode', '--project', folder.uri.fsPath];
  const { stdout, stderr } = await run(program, args);
  await show(stdout);
  const question = `Guard VS Code's own agent in ${folder.name}, with the hooks that are shown?`;
  const where = stderr
    .trim()
    .replace(folder.uri.fsPath + sep, '')
    .replace(/; --write .*$/, '.');
  if (!(await ask(question, `${where} What is in that file already stays.`))) return undefined;
  const written = await run(program, [...args, '--write']);
  return (written.stdout + written.stderr).trim();
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

/** What the program says; of one that fails, Node's words would only be how it was called. */
async function run(program: string, args: string[]): Promise<{ stdout: string; stderr: string }> {
  try {
    return await promisify(execFile)(program, args);
  } catch (error) {
    const { stderr = '', message } = error as Error & { stderr?: string };
    throw new Error(stderr.trim() || message, { cause: error });
  }
}
