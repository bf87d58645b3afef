/** Hooks of VS Code's own agent, whose calls no extension can see: the configuration is shown, then written. */

import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import * as vscode from 'vscode';
import { findProgram } from './daemon';

const run = promisify(execFile);
const SCHEME = 'turnguard-hooks';

export async function installHook(): Promise<void> {
  const folders = vscode.workspace.workspaceFolders ?? [];
  const folder = folders.length > 1 ? await vscode.window.showWorkspaceFolderPick() : folders[0];
  if (folder?.uri.scheme !== 'file') {
    void vscode.window.showInformationMessage('Open a folder first: hooks of VS Code are kept in one.');
    return;
  }
  try {
    const program = await findProgram();
    const args = ['hook', 'install', 'vscode', '--project', folder.uri.fsPath];
    const { stdout, stderr } = await run(program, args);
    await show(stdout);
    const question = `Guard VS Code's own agent in ${folder.name}, with the hooks that are shown?`;
    const choice = await vscode.window.showInformationMessage(
      question,
      { modal: true, detail: stderr.trim().replace(/; --write .*$/, '.') },
      'Write',
    );
    if (choice !== 'Write') return;
    const written = await run(program, [...args, '--write']);
    void vscode.window.showInformationMessage((written.stdout + written.stderr).trim());
  } catch (error) {
    void vscode.window.showErrorMessage(
      `The hooks were not written: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
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
