// As much of VS Code as the parts of src that are tested here look at; `fake` says what it is like.
const listeners = {};
const event = (name) => (listener) => {
  (listeners[name] ??= new Set()).add(listener);
  return { dispose: () => listeners[name].delete(listener) };
};

export const fake = {
  isTrusted: true,
  folders: [],
  /** By scope: `globalValue`, `workspaceValue`. */
  path: {},
  interpreter: undefined,
  /** The text that is shown in an editor. */
  document: undefined,
  /** Of the extension, by name. */
  settings: {},
  /** The notifications that came up, and the buttons of the last one. */
  shown: [],
  buttons: [],
  /** Those that are there as long as something lasts. */
  lasting: new Set(),
  /** The button that is pressed; undefined: they are closed. */
  pressed: undefined,
  fire: (name, value) => listeners[name]?.forEach((listener) => listener(value)),
};

export const workspace = {
  get isTrusted() {
    return fake.isTrusted;
  },
  get workspaceFolders() {
    return fake.folders.map((fsPath) => ({ name: 'folder', uri: { scheme: 'file', fsPath } }));
  },
  getConfiguration: () => ({
    inspect: (name) => (name === 'path' ? fake.path : {}),
    get: (name, otherwise) => fake.settings[name] ?? otherwise,
  }),
  onDidChangeConfiguration: event('configuration'),
  onDidGrantWorkspaceTrust: event('trust'),
  registerTextDocumentContentProvider: (_scheme, { provideTextDocumentContent }) => {
    fake.document = provideTextDocumentContent();
    return { dispose: () => undefined };
  },
  openTextDocument: async () => undefined,
};

const show = async (message, ...buttons) => {
  fake.shown.push(message);
  fake.buttons = buttons;
  return fake.pressed;
};
const withProgress = async ({ title }, task) => {
  fake.lasting.add(title);
  await task();
  fake.lasting.delete(title);
};
export const window = {
  showInformationMessage: show,
  showWarningMessage: show,
  showErrorMessage: show,
  withProgress,
  showTextDocument: async () => undefined,
};
export const Uri = { from: (parts) => parts };
export const ProgressLocation = { Notification: 15 };

const environments = {
  getActiveEnvironmentPath: () => ({ id: 'e', path: fake.interpreter }),
  resolveEnvironment: async ({ path }) => path && { executable: { uri: { fsPath: path } } },
  onDidChangeActiveEnvironmentPath: event('interpreter'),
};

export const extensions = { getExtension: () => ({ activate: async () => ({ environments }) }) };

export class EventEmitter {
  event = () => undefined;
  fire() {}
}

export const Disposable = { from: (...all) => ({ dispose: () => all.forEach((each) => each.dispose()) }) };
