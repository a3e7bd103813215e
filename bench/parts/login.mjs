import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gpgBridge } from '../bridges.mjs';
import { ended, failed, untilSocket } from '../processes.mjs';
import { interleave, summary } from '../statistics.mjs';
import { ms, ratio, table } from '../tables.mjs';

/** One way of the line, in milliseconds. */
const DELAY_MS = 25;

const WAYS = [
  { id: 'ssh-A', label: '`ssh -A`', open: forwardAgent },
  { id: 'bridge', label: '`ssh:`', open: (bench, host, far) => bridge(bench, host, far, []) },
  {
    id: 'no-ahead',
    label: '`ssh:`, `--no-ahead`',
    open: (b, host, far) => bridge(b, host, far, ['--no-ahead']),
  },
];

/** A login from a far machine to one beside it, with the key in the host's ssh-agent. */
export const login = {
  id: 'login',
  title: 'An ssh login over a distance',
  needs: ['sshd'],

  async run(bench, scale, say) {
    const agent = await startAgent(bench);
    const host = { ...(await bench.realHost()) };
    host.env = { ...host.env, SSH_AUTH_SOCK: agent.socket };
    const next = await nextMachine(bench, agent);
    const open = [];
    try {
      for (const way of WAYS) {
        const far = await bench.farMachine(`login-${way.id}`);
        open.push({ ...way, far, ...(await way.open(bench, host, far)) });
      }
      for (const { far } of open) far.relay.delayMs = DELAY_MS;
      const run = ({ socket }) => {
        const words = ['ssh', '-F', next.config, '-o', `IdentityAgent=${socket}`, next.name, 'true'];
        return bench.client(['time', scale.farRuns, '--', ...words]);
      };
      for (const way of open) await run(way);
      say(`${DELAY_MS} ms each way`);
      const samples = await interleave(open, scale.farRounds, run);
      return { rows: Object.fromEntries(open.map((way) => [way.id, summary(samples.get(way))])) };
    } finally {
      for (const { far } of open) far.relay.delayMs = 0;
      for (const { stop } of open) await stop();
      await agent.stop();
    }
  },

  render({ rows }) {
    return [
      `Wall time in milliseconds of \`ssh next true\` on a machine whose line to the host takes ${DELAY_MS} ms each way, and which`,
      'is right beside `next`: what crosses the line is what is asked of the ssh-agent.',
      '',
      table(
        [...WAYS.map(({ label }) => label), '`ssh:` : `ssh -A`'],
        [[...WAYS.map(({ id }) => ms(rows[id].median)), ratio(rows.bridge.median / rows['ssh-A'].median)]],
      ),
    ].join('\n');
  },
};

async function startAgent(bench) {
  const directory = await bench.newDirectory();
  const [socket, key] = [join(directory, 'agent'), join(directory, 'key')];
  const child = spawn('ssh-agent', ['-D', '-a', socket], { stdio: 'ignore' });
  await untilSocket(socket, child);
  const { runOk } = bench.support;
  await runOk('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', key]);
  await runOk('ssh-add', ['-q', key], { env: { ...process.env, SSH_AUTH_SOCK: socket } });
  return { socket, publicKey: await readFile(`${key}.pub`, 'utf8'), stop: () => ended(child) };
}

/** The machine that is logged in to, by the agent's key alone. */
async function nextMachine(bench, { publicKey }) {
  const server = await bench.sshServer('next');
  await server.authorize(publicKey);
  const own = await readFile(server.configPath, 'utf8');
  const config = join(await bench.newDirectory(), 'ssh_config');
  await writeFile(config, own.replace(/^(?:IdentityFile|IdentitiesOnly|IdentityAgent) .*\n/gm, ''));
  return { name: bench.support.SSH_HOST, config };
}

/** The forward of ssh itself, in a session that stays open. */
async function forwardAgent(bench, { env }, far) {
  const ssh = join(await bench.binDirectory(), 'ssh');
  const words = ['-A', '-o', `IdentityAgent=${env.SSH_AUTH_SOCK}`, far.name, 'echo "$SSH_AUTH_SOCK"; cat'];
  const child = spawn(ssh, words, { stdio: ['pipe', 'pipe', 'inherit'] });
  const gone = failed(child);
  gone.catch(() => {});
  const [printed] = await Promise.race([once(child.stdout, 'data'), gone]);
  return { socket: printed.toString().trim(), stop: () => ended(child) };
}

async function bridge(bench, host, far, options) {
  const target = `ssh:${far.name}`;
  const words = ['up', target, '--runtime', 'perl', '--ssh', '--no-gpg', '--json', ...options];
  const { sockets } = JSON.parse(await gpgBridge(bench, host, words));
  const socket = sockets.find(({ type }) => type === 'ssh-agent').path;
  return { socket, stop: () => gpgBridge(bench, host, ['down', target]) };
}
