// Stands for the half of the computer. A browser has no sockets, so each command goes on to a process that has the
// real AgentProxy; what crosses between the two extension hosts is what crosses between them in any other VS Code.
const vscode = require('vscode');

const COMMANDS = ['connectAgent', 'sendCommands', 'disconnectAgent', 'exportPublicKeys', 'checkVersion'];

async function pass(name, args) {
  const url = vscode.workspace.getConfiguration('localDouble').get('url');
  const response = await fetch(`${url}/${name}`, { method: 'POST', body: JSON.stringify(args) });
  return response.json();
}

exports.activate = (context) => {
  const register = (name, run) => context.subscriptions.push(vscode.commands.registerCommand(name, run));
  for (const name of COMMANDS) register(`_gpg-bridge-agent.${name}`, (...args) => pass(name, args));
  register('_local-double.echo', (text) => text);
  register('_local-double.where', () => ({
    isWorker: typeof WorkerGlobalScope !== 'undefined' && globalThis instanceof WorkerGlobalScope,
    hasNode: typeof process !== 'undefined' && process.versions?.node !== undefined,
    kind: vscode.ExtensionKind[context.extension.extensionKind],
  }));
};
