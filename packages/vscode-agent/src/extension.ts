import * as vscode from 'vscode';
import { wireAgent } from './wiring.ts';

/** Called by VS Code when a remote, or a person, first needs the extension. */
export function activate(context: vscode.ExtensionContext): void {
  wireAgent(vscode, context);
}
