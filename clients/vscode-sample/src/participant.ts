/** `@guarded`: an agent of our own, in the chat. Its calls are told to the guard before `lm.invokeTool` runs any. */

import { randomUUID } from 'node:crypto';
import * as vscode from 'vscode';
import {
  isOfCap,
  ToolError,
  type Answer,
  type Halt,
  type ModelRequest,
  type ModelResponse,
  type ToolCall,
} from './guard';
import type { Turns, WindowAgent } from './turns';

export function registerParticipant(turns: Turns): vscode.ChatParticipant {
  const participant = vscode.chat.createChatParticipant(
    'turnguard.guarded',
    async (request, context, stream, token) => {
      const session = turns.session({ sessionId: sessionIdOf(context), agentId: 'guarded' });
      const agent = new ModelAgent({
        model: request.model,
        messages: [...historyOf(context), vscode.LanguageModelChatMessage.User(request.prompt)],
        tools: toolsFor(request),
        invocationToken: request.toolInvocationToken,
        token,
        write: (text) => stream.markdown(text),
        halted: (halt, message) => showHalt(stream, session.id, halt, message),
      });
      const outcome = await turns.run(session, agent, token);
      if (outcome === 'stopped') stream.markdown('\n\n_Stopped._');
      return { metadata: { sessionId: session.id } };
    },
  );
  participant.iconPath = new vscode.ThemeIcon('shield');
  return participant;
}

/** One conversation, one session: its id stands in the answer before. */
function sessionIdOf(context: vscode.ChatContext): string {
  const before = context.history.findLast((turn) => turn instanceof vscode.ChatResponseTurn);
  const id: unknown = before?.result.metadata?.sessionId;
  return typeof id === 'string' ? id : `chat-${randomUUID().slice(0, 4)}`;
}

function historyOf(context: vscode.ChatContext): vscode.LanguageModelChatMessage[] {
  return context.history.map((turn) => {
    if (turn instanceof vscode.ChatRequestTurn) return vscode.LanguageModelChatMessage.User(turn.prompt);
    const parts = turn.response.map((part) =>
      part instanceof vscode.ChatResponseMarkdownPart ? part.value.value : '',
    );
    return vscode.LanguageModelChatMessage.Assistant(parts.join(''));
  });
}

/** The tools that the person named, else all. */
function toolsFor(request: vscode.ChatRequest): vscode.LanguageModelToolInformation[] {
  const named = new Set(request.toolReferences.map(({ name }) => name));
  return vscode.lm.tools.filter(({ name }) => named.size === 0 || named.has(name));
}

function showHalt(stream: vscode.ChatResponseStream, sessionId: string, halt: Halt, message: string): void {
  stream.markdown(`\n\n${message}\n`);
  const about = { sessionId, haltId: halt.id };
  stream.button({ command: 'turnguard.continueOnce', title: 'Continue Once', arguments: [about] });
  if (isOfCap(halt.verdict)) stream.button({ command: 'turnguard.raiseCap', title: 'Raise Cap', arguments: [about] });
  stream.button({ command: 'turnguard.stop', title: 'Stop', arguments: [about] });
}

export interface ModelAgentOptions {
  model: vscode.LanguageModelChat;
  messages: vscode.LanguageModelChatMessage[];
  tools: readonly vscode.LanguageModelToolInformation[];
  /** Of the chat request; undefined outside of the chat. */
  invocationToken: vscode.ChatRequest['toolInvocationToken'];
  token: vscode.CancellationToken;
  write: (text: string) => void;
  halted?: (halt: Halt, message: string) => void;
}

/** A language model with tools. */
export class ModelAgent implements WindowAgent {
  private readonly contents = new Map<string, vscode.LanguageModelToolResult['content']>();

  constructor(private readonly options: ModelAgentOptions) {}

  async ask({ toolChoice, activeTools, answers, notes }: ModelRequest): Promise<ModelResponse> {
    const { model, messages, token, write } = this.options;
    if (answers.length > 0)
      messages.push(vscode.LanguageModelChatMessage.User(answers.map((each) => this.answerPart(each))));
    for (const note of notes) messages.push(vscode.LanguageModelChatMessage.User(note));
    const tools =
      toolChoice === 'none' ? [] : this.options.tools.filter(({ name }) => activeTools?.includes(name) ?? true);

    const response = await model.sendRequest(messages, { tools }, token);
    const parts: (vscode.LanguageModelTextPart | vscode.LanguageModelToolCallPart)[] = [];
    for await (const part of response.stream) {
      if (part instanceof vscode.LanguageModelTextPart) write(part.value);
      else if (!(part instanceof vscode.LanguageModelToolCallPart)) continue;
      parts.push(part);
    }
    messages.push(vscode.LanguageModelChatMessage.Assistant(parts));
    return {
      text: parts.map((part) => (part instanceof vscode.LanguageModelTextPart ? part.value : '')).join(''),
      calls: parts
        .filter((part) => part instanceof vscode.LanguageModelToolCallPart)
        .map(({ callId, name, input }) => ({ id: callId, name, args: input })),
    };
  }

  async invoke(call: ToolCall): Promise<string> {
    if (!vscode.lm.tools.some(({ name }) => name === call.name))
      throw new ToolError(`There is no tool ${call.name}.`, 'unknown_tool');
    const { content } = await vscode.lm.invokeTool(
      call.name,
      { input: call.args as object, toolInvocationToken: this.options.invocationToken },
      this.options.token,
    );
    this.contents.set(call.id, content);
    // To the guard, parts that are no text are the same when they look the same.
    return content
      .map((part) => (part instanceof vscode.LanguageModelTextPart ? part.value : JSON.stringify(part)))
      .join('\n');
  }

  tell(message: string): void {
    this.options.write(`\n\n> ${message}\n\n`);
  }

  halted(halt: Halt, message: string): void {
    this.options.halted?.(halt, message);
  }

  private answerPart({ call, kind, output }: Answer): vscode.LanguageModelToolResultPart {
    const content = kind === 'ran' ? this.contents.get(call.id) : undefined;
    this.contents.delete(call.id);
    return new vscode.LanguageModelToolResultPart(
      call.id,
      content ?? [new vscode.LanguageModelTextPart(String(output))],
    );
  }
}
