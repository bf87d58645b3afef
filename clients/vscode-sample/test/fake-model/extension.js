const vscode = require('vscode');
const { registerCrowd } = require('./crowd');

/** A model that never tires: as long as it is offered a tool it calls it, twice at a time, once always the same. */
const looping = {
  provideLanguageModelChatInformation: () => [
    {
      id: 'looping',
      name: 'Looping',
      family: 'fake',
      version: '1',
      maxInputTokens: 100_000,
      maxOutputTokens: 1_000,
      capabilities: { toolCalling: true },
    },
  ],
  provideLanguageModelChatResponse: async (_model, messages, { tools = [] }, progress) => {
    if (tools.length === 0) {
      progress.report(new vscode.LanguageModelTextPart('I saw nothing.'));
      return;
    }
    // So the ids of one turn come again in the next, as with a model that begins anew in each.
    const step = messages.length;
    progress.report(new vscode.LanguageModelTextPart('I look again. '));
    progress.report(new vscode.LanguageModelToolCallPart(`same-${step}`, 'fake_look', { at: 'here' }));
    progress.report(new vscode.LanguageModelToolCallPart(`other-${step}`, 'fake_look', { at: `place ${step}` }));
  },
  provideTokenCount: async () => 1,
};

let looks = 0;

/** On a busy machine a verdict can take longer than an agent should wait for it; tests are to see what it says. */
const PATIENCE_MS = 5_000;

exports.activate = async (context) => {
  context.subscriptions.push(
    registerCrowd(),
    vscode.lm.registerLanguageModelChatProvider('turnguard-fake', looping),
    vscode.lm.registerTool('fake_look', {
      invoke: () => {
        looks += 1;
        return new vscode.LanguageModelToolResult([new vscode.LanguageModelTextPart('nothing')]);
      },
    }),
  );
  const { daemon } = await vscode.extensions.getExtension('turnguard.turnguard-sample').activate();
  daemon.guard.options.patienceMs = PATIENCE_MS;
  /** How often the tool ran. */
  return { looks: () => looks };
};
