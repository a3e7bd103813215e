import type * as vscode from 'vscode';

/** VS Code's API as a value: only `activate` imports the real one, everything else is handed it. */
export type VsCode = typeof vscode;

/** What the extensions use of the context that VS Code activates them with. */
export interface Context {
  readonly subscriptions: { dispose(): unknown }[];
  /** A directory of the extension's own, on the machine that it runs on. */
  readonly globalStorageUri: { readonly fsPath: string };
  readonly extension: {
    readonly packageJSON: { version: string };
    /** Where it runs: 1 beside the person, 2 in the remote. */
    readonly extensionKind?: number;
  };
}
