import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { failed } from './processes.mjs';

/** Runs the built command, or another build of it, and returns what it printed. */
export async function gpgBridge(bench, host, words, build = {}) {
  const { command = bench.command, env = await bench.commandEnv(host) } = build;
  return bench.support.runOk(process.execPath, [command, ...words], { env });
}

/** Brings a bridge up for gpg alone; returns its socket in the target, its daemon and how to end it. */
export async function upBridge(bench, host, words, build) {
  const options = ['--gpg', '--no-ssh', '--keys', host.keys, '--json'];
  const info = JSON.parse(await gpgBridge(bench, host, ['up', ...words, ...options], build));
  const [target, second] = words;
  const which = target === '--exec' ? [target, second] : [target];
  return {
    path: info.sockets.find(({ type }) => type === 'gpg-agent').path,
    daemon: info.pid,
    stop: () => gpgBridge(bench, host, ['down', ...which], build),
  };
}

/** Starts both proxies in a process of their own (see proxies.ts); `flags` are Node's, `words` the program's. */
export async function startProxies(bench, host, { flags = [], words }) {
  const child = spawn(process.execPath, [...flags, await bench.proxiesProgram(), ...words], {
    env: host.env,
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const gone = failed(child);
  gone.catch(() => {});
  await Promise.race([once(child.stdout, 'data'), gone]);
  const stop = async () => {
    child.stdin.end();
    await once(child, 'close');
  };
  return { pid: child.pid, stop };
}
