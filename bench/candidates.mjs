import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { startProxies, upBridge } from './bridges.mjs';
import { newExec } from './engine.mjs';
import { FLOORS } from './floors.mjs';
import { ended, ofContainer, tree, untilSocket } from './processes.mjs';

/**
 * Ways to an agent. `start(bench, host)` sets one up and returns how it is used:
 *   path       the socket that a client connects to; absent for a bare echo
 *   roundTrip  the client's words for n round trips
 *   pids       the processes on the way, the agent and the client left out
 *   daemon     the process of the host's side, where there is one of ours
 *   stop       ends it
 */

const roundTrips = (path) => (n) => ['rtt', path, n];

async function direct(_bench, host) {
  return {
    path: host.extraSocket,
    roundTrip: roundTrips(host.extraSocket),
    pids: () => [],
    stop: async () => {},
  };
}

async function socat(bench, host) {
  const path = join(await bench.newDirectory(), 's');
  const child = spawn('socat', [`UNIX-LISTEN:${path},fork,backlog=4096`, `UNIX-CONNECT:${host.extraSocket}`]);
  await untilSocket(path, child);
  return { path, roundTrip: roundTrips(path), pids: () => tree(child.pid), stop: () => ended(child) };
}

async function sshForward(bench, host) {
  const path = join(await bench.newDirectory(), 's');
  const { configPath } = await bench.sshServer();
  const options = ['-N', '-o', 'ExitOnForwardFailure=yes', '-R', `${path}:${host.extraSocket}`];
  const child = spawn('ssh', ['-F', configPath, ...options, bench.support.SSH_HOST], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  await untilSocket(path, child);
  const server = await bench.sshServer();
  const pids = () => [child.pid, ...tree(server.daemon.pid)];
  return { path, roundTrip: roundTrips(path), pids, stop: () => ended(child) };
}

async function execEcho(bench) {
  const { id } = await bench.container('git', 'echo');
  const { env } = await bench.engine();
  return {
    roundTrip: (n) => ['pipe', n, '--', 'docker', 'exec', '--interactive', id, 'cat'],
    env: () => env,
    pids: () => [],
    stop: async () => {},
  };
}

async function apiEcho(bench) {
  const { id } = await bench.container('git', 'echo');
  const engine = await bench.engine();
  return {
    roundTrip: async (n) => ['exec', engine.socketPath, await newExec(engine, id, ['cat']), n],
    pids: () => [],
    stop: async () => {},
  };
}

const proxies = (flags) => async (bench, host) => {
  const path = join(await bench.newDirectory(), 'S.gpg-agent');
  const { pid, stop } = await startProxies(bench, host, { flags, words: [path] });
  return { path, roundTrip: roundTrips(path), pids: () => [pid], daemon: pid, stop };
};

const local = (runtime) => async (bench, host) => {
  const bridge = await upBridge(bench, host, [`local:${await bench.newDirectory()}`, '--runtime', runtime]);
  return { ...bridge, roundTrip: roundTrips(bridge.path), pids: () => tree(bridge.daemon) };
};

const container = (image, runtime, way) => async (bench, host) => {
  const { id, pid, name } = await bench.container(image, way);
  // A command prefix takes the same way as an engine that only its command reaches.
  const target = way === 'command' ? ['--exec', `docker exec -i ${id}`] : [name];
  const bridge = await upBridge(bench, host, [...target, '--runtime', runtime]);
  const path = `/proc/${pid}/root${bridge.path}`;
  const engine = await bench.engine();
  const pids = () => [...tree(bridge.daemon), ...tree(engine.pid), ...ofContainer({ id, pid })];
  return { ...bridge, path, roundTrip: roundTrips(path), pids };
};

const ssh = (runtime, number) => async (bench, host) => {
  const bridge = await upBridge(bench, host, [`ssh:${bench.sshHost(number)}`, '--runtime', runtime]);
  const server = await bench.sshServer(number);
  return {
    ...bridge,
    roundTrip: roundTrips(bridge.path),
    pids: () => [...tree(bridge.daemon), ...tree(server.daemon.pid)],
  };
};

/** The servers in containers, and an image that has what they run on. */
const SERVERS = {
  node: { name: 'Node', image: 'node' },
  perl: { name: 'Perl', image: 'git' },
};

/** All candidates, in the order of the tables. */
export const CANDIDATES = [
  { id: 'direct', label: 'gpg-agent itself', start: direct },
  { id: 'socat', label: '`socat`, one hop', needs: ['socat'], start: socat },
  { id: 'ssh-R', label: '`ssh -R`, loopback sshd', needs: ['sshd'], start: sshForward },
  { id: 'exec-echo', label: 'bare echo, `docker exec -i … cat`', needs: ['docker'], start: execEcho },
  { id: 'api-echo', label: 'bare echo, Engine API exec stream', needs: ['docker'], start: apiEcho },
  ...FLOORS,
  { id: 'proxies', label: 'both proxies in one process', ours: true, start: proxies([]) },
  { id: 'local-node', label: '`local:`, Node server', ours: true, start: local('node') },
  { id: 'local-perl', label: '`local:`, Perl server', ours: true, start: local('perl') },
  ...[
    ['api', 'Engine API'],
    ['command', '`docker` command'],
  ].flatMap(([way, how]) =>
    Object.entries(SERVERS).map(([runtime, { name, image }]) => ({
      id: `${way}-${runtime}`,
      label: `container, ${name} server, ${how}`,
      ours: true,
      needs: ['docker'],
      start: container(image, runtime, way),
    })),
  ),
  { id: 'ssh-node', label: '`ssh:`, Node server', ours: true, needs: ['sshd'], start: ssh('node', 1) },
  { id: 'ssh-perl', label: '`ssh:`, Perl server', ours: true, needs: ['sshd'], start: ssh('perl', 2) },
];

/** Those that only some parts measure. */
const OTHERS = [
  {
    id: 'proxies-small',
    label: 'both proxies, small young generation',
    ours: true,
    start: proxies(['--max-semi-space-size=1']),
  },
];

/** The candidates with these ids, or all of the tables. */
export function candidatesOf(ids) {
  return ids
    ? ids.map((id) => [...CANDIDATES, ...OTHERS].find((candidate) => candidate.id === id))
    : CANDIDATES;
}

/**
 * Sets candidates up for one host, hands them to `work`, and ends them. One that can't be had is left out,
 * with the reason in `skipped`; the candidates that use one target at a time are the callers' business.
 */
export async function withCandidates(bench, host, ids, skipped, work) {
  const running = [];
  try {
    for (const candidate of candidatesOf(ids)) {
      const missing = bench.missing(candidate.needs);
      try {
        if (missing) throw new Error(missing);
        running.push({ ...candidate, ...(await candidate.start(bench, host)) });
      } catch (error) {
        // The last line: what is before it is the command, with paths that mean nothing later.
        skipped[candidate.label] = error.message.trim().split('\n').at(-1).replace(/\.$/, '');
      }
    }
    return await work(running);
  } finally {
    for (const { stop } of running.reverse()) await stop();
  }
}
