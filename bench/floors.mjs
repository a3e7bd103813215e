import { spawn } from 'node:child_process';
import { copyFile } from 'node:fs/promises';
import { join } from 'node:path';
import { newExec } from './engine.mjs';
import { ended, ofContainer, tree, untilSocket } from './processes.mjs';
import { ROOT } from './support.mjs';

/**
 * The least bridges: both ends do nothing but pass on frames, for one client. In C they show what the
 * processes on a path cost by themselves; in Node and Perl what the runtimes do, that a bridge is made of
 * which needs nothing to be installed.
 */
const KINDS = {
  c: {
    label: 'C',
    host: (bench) => [bench.programs.floor],
    serve: (file) => [file, 'serve'],
    file: (bench) => bench.programs.floor,
  },
  runtimes: {
    label: 'Node and Perl',
    host: () => [process.execPath, join(ROOT, 'bench/floor.mjs')],
    serve: (file) => ['perl', file],
    file: () => join(ROOT, 'bench/floor.pl'),
  },
};

function start([program, ...words], env = process.env) {
  return spawn(program, words, { env, stdio: ['ignore', 'ignore', 'inherit'] });
}

function floor(path, child, pids) {
  return { path, roundTrip: (n) => ['rtt', path, n], pids, stop: () => ended(child) };
}

async function overCommand(bench, host, kind, before) {
  const { host: own, serve, file } = KINDS[kind];
  const path = join(await bench.newDirectory(), 's');
  const words = [...own(bench), 'host', host.extraSocket, '--', ...before, ...serve(file(bench)), path];
  const child = start(words, await bench.commandEnv(host));
  await untilSocket(path, child);
  return floor(path, child, () => tree(child.pid));
}

const local = (kind) => (bench, host) => overCommand(bench, host, kind, []);

const overSsh = (kind) => async (bench, host) => {
  const ssh = [join(await bench.binDirectory(), 'ssh'), bench.sshHost(1)];
  const made = await overCommand(bench, host, kind, ssh);
  const server = await bench.sshServer(1);
  return { ...made, pids: () => [...made.pids(), ...tree(server.daemon.pid)] };
};

/** A least bridge into a container, with its socket at this path in there; `words` are for both of its ends. */
export async function floorInContainer(bench, host, { id, pid }, socket, kind = 'c', words = []) {
  const { host: own, serve, file } = KINDS[kind];
  const engine = await bench.engine();
  await copyFile(file(bench), `/proc/${pid}/root/floor-${kind}`);
  const execId = await newExec(engine, id, [...serve(`/floor-${kind}`), socket, ...words]);
  const child = start([...own(bench), 'exec', host.extraSocket, engine.socketPath, execId, ...words]);
  const path = `/proc/${pid}/root${socket}`;
  await untilSocket(path, child);
  return floor(path, child, () => [child.pid, ...tree(engine.pid), ...ofContainer({ id, pid })]);
}

const inContainer = (kind) => async (bench, host) =>
  floorInContainer(bench, host, await bench.container('git', `floor ${kind}`), '/floor.socket', kind);

/** The least bridges, among the candidates. */
export const FLOORS = Object.entries(KINDS).flatMap(([kind, { label }]) => {
  const suffix = kind === 'c' ? '' : `-${kind}`;
  const named = (where) => `least bridge in ${label}, ${where}`;
  return [
    { id: `floor-local${suffix}`, label: named('local'), start: local(kind) },
    { id: `floor-api${suffix}`, label: named('container'), needs: ['docker'], start: inContainer(kind) },
    { id: `floor-ssh${suffix}`, label: named('over `ssh`'), needs: ['sshd'], start: overSsh(kind) },
  ];
});
