/** Runs the built command and returns what it printed. */
export async function gpgBridge(bench, host, words) {
  const env = await bench.commandEnv(host);
  return bench.support.runOk(process.execPath, [bench.command, ...words], { env });
}

/** Brings a bridge up for gpg alone; returns its socket in the target, its daemon and how to end it. */
export async function upBridge(bench, host, words) {
  const options = ['--gpg', '--no-ssh', '--keys', host.keys, '--json'];
  const info = JSON.parse(await gpgBridge(bench, host, ['up', ...words, ...options]));
  const [target, second] = words;
  const which = target === '--exec' ? [target, second] : [target];
  return {
    path: info.sockets.find(({ type }) => type === 'gpg-agent').path,
    daemon: info.pid,
    stop: () => gpgBridge(bench, host, ['down', ...which]),
  };
}
