import type * as vscode from 'vscode';

/** VS Code's API as a value: only `activate` imports the real one, everything else is handed it. */
export type VsCode = typeof vscode;

/** What the extensions use of the context that VS Code activates them with. */
export interface Context {
  readonly subscriptions: { dispose(): unknown }[];
  readonly globalState: vscode.Memento;
  readonly extension: { readonly packageJSON: { version: string } };
}
