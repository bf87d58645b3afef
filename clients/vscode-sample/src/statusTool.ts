/** A tool for language models: how the guarded sessions stand. */

import * as vscode from 'vscode';
import type { Sessions } from './sessions';

export function registerStatusTool(sessions: Sessions): vscode.Disposable {
  return vscode.lm.registerTool('turnguard_status', {
    invoke: () => {
      const standing = sessions
        .list()
        .map(({ sessionId, state, totals, cap }) => ({ sessionId, state, totals, cap: cap.value }));
      return new vscode.LanguageModelToolResult([
        new vscode.LanguageModelTextPart(JSON.stringify({ sessions: standing })),
      ]);
    },
  });
}
