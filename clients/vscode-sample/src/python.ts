/** The Python interpreter that is selected, from the Python extension if that is there. */

import * as vscode from 'vscode';

/** The part of the API of ms-python.python that is used here. */
interface PythonApi {
  environments: {
    getActiveEnvironmentPath(): { id: string; path: string };
    resolveEnvironment(environment: {
      id: string;
      path: string;
    }): Promise<{ executable: { uri?: vscode.Uri } } | undefined>;
    onDidChangeActiveEnvironmentPath: vscode.Event<unknown>;
  };
}

async function pythonApi(): Promise<PythonApi | undefined> {
  try {
    return await vscode.extensions.getExtension<PythonApi>('ms-python.python')?.activate();
  } catch {
    return undefined; // Its trouble is its own to tell.
  }
}

export async function selectedInterpreter(): Promise<string | undefined> {
  const environments = (await pythonApi())?.environments;
  const environment = await environments?.resolveEnvironment(environments.getActiveEnvironmentPath());
  return environment?.executable.uri?.fsPath;
}

export async function onInterpreterChange(listener: () => void): Promise<vscode.Disposable | undefined> {
  return (await pythonApi())?.environments.onDidChangeActiveEnvironmentPath(listener);
}
