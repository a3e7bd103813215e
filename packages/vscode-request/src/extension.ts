import * as vscode from 'vscode';
import { wireRequest } from './wiring.ts';

let stop: () => Promise<void> = async () => {};

/** Called by VS Code when a window has started. */
export function activate(context: vscode.ExtensionContext): void {
  stop = wireRequest(vscode, context);
}

/** Called by VS Code before the extension host ends; it waits for what is returned. */
export function deactivate(): Promise<void> {
  return stop();
}
