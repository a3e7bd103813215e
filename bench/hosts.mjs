import { spawn } from 'node:child_process';
import { once } from 'node:events';

/**
 * A host is where the keys are: the environment in which its gpg-agent is found, the extra socket, and
 * which keys a bridge to it is to send.
 */

/** A real gpg-agent with an ed25519 key that has no passphrase. */
export async function realHost({ support }) {
  const home = await support.GnupgHome.create();
  const fingerprint = await home.createKey('Bench <bench@example.org>', { usage: 'sign' });
  await home.addEncryptionKey(fingerprint);
  await home.launchAgent();
  const listing = await home.gpgOk(['--with-colons', '--with-keygrip', '--list-keys']);
  const agentPid = await agentPidOf(support, home);
  return {
    name: 'gpg-agent',
    home,
    env: home.env,
    extraSocket: await home.socket('agent-extra-socket'),
    fingerprint,
    grip: /^grp:+([0-9A-F]{40}):/m.exec(listing)[1],
    agentPid,
    keys: 'pairs',
    stop: () => home.remove(),
  };
}

async function agentPidOf(support, home) {
  const answer = await support.runOk('gpg-connect-agent', ['GETINFO pid', '/bye'], { env: home.env });
  return Number(/^D (\d+)/m.exec(answer)[1]);
}

/** The trivial agent where gpg-agent's extra socket would be. */
export async function trivialHost({ support, programs }) {
  const home = await support.GnupgHome.create();
  const extraSocket = await home.socket('agent-extra-socket');
  const agent = spawn(programs.agent, [extraSocket], { stdio: ['ignore', 'pipe', 'inherit'] });
  await once(agent.stdout, 'data');
  return {
    name: 'trivial agent',
    home,
    env: home.env,
    extraSocket,
    agentPid: agent.pid,
    keys: 'none',
    async stop() {
      agent.kill();
      await home.remove();
    },
  };
}
