import { readFile } from 'node:fs/promises';
import { personWithContainer, type Up } from '@gpg-bridge/test-support/bridged';
import type { ContainerEngine } from '@gpg-bridge/test-support/engine/containers';
import { sharedEngine } from '@gpg-bridge/test-support/engine/shared';
import { SETUP_MS } from '@gpg-bridge/test-support/patient';
import { run, runOk } from '@gpg-bridge/test-support/process';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import { startSshAgent } from '@gpg-bridge/test-support/ssh-agent';
import { SshServer } from '@gpg-bridge/test-support/sshd';
import { beforeAll, expect, it } from 'vitest';

requireSystem('docker', 'sshd')('the ssh-agent in a container', () => {
  let docker: ContainerEngine;

  beforeAll(async () => {
    docker = await sharedEngine('docker');
  }, SETUP_MS);

  /** A container as the user dev, with a bridge to an ssh-agent that has these keys. */
  async function bridged(comments: readonly string[], ...options: string[]) {
    const { person, container, name } = await personWithContainer(docker);
    const agent = await startSshAgent();
    const keys = [];
    for (const comment of comments) keys.push(await agent.addKey(comment));
    person.env.SSH_AUTH_SOCK = agent.socketPath;
    const up = await person.json<Up>('up', name, '--user=dev', '--no-gpg', ...options);
    const SSH_AUTH_SOCK = '/home/dev/.ssh/agent.sock';
    const inside = (script: string) =>
      container.exec(['sh', '-c', script], { user: 'dev', env: { SSH_AUTH_SOCK } });
    return { person, container, name, agent, keys, up, inside };
  }

  it('lists and signs, and lets nobody change its keys', async () => {
    const { person, container, name, agent, keys, up, inside } = await bridged(['work', 'home']);
    expect(up.sockets).toEqual([{ type: 'ssh-agent', path: '/home/dev/.ssh/agent.sock' }]);
    expect(await container.execOk(['stat', '-c', '%U %a', '/home/dev/.ssh', up.sockets[0]!.path])).toBe(
      'dev 700\ndev 600\n',
    );
    const listed = await inside('ssh-add -l');
    expect(listed.stdout.toString()).toMatch(/ work \(.* home \(/s);

    const publicKey = await readFile(`${keys[0]}.pub`, 'utf8');
    const signed = await inside(
      `cd && echo '${publicKey.trim()}' > k.pub && echo hello > letter && ssh-keygen -Y sign -n file -f k.pub letter && cat letter.sig`,
    );
    expect(signed.stdout.toString()).toContain('BEGIN SSH SIGNATURE');

    for (const command of [
      'ssh-add -d k.pub',
      'ssh-add -D',
      'ssh-keygen -q -t ed25519 -N "" -f new && ssh-add new',
      'ssh-add -s /usr/lib/x.so < /dev/null',
    ]) {
      expect((await inside(`cd && ${command}`)).status, command).not.toBe(0);
    }
    expect(await runOk('ssh-add', ['-l'], { env: agent.env })).toMatch(/ work \(.* home \(/s);
    const log = await person.ok('log', name, '--user=dev');
    expect(log).toMatch(/signed with work SHA256:\S+: ok/);
  });

  it('offers only the keys that were chosen', async () => {
    const { inside } = await bridged(['work', 'home'], '--ssh-key=home');
    expect((await inside('ssh-add -l')).stdout.toString()).toMatch(/^\S+ \S+ home \(ED25519\)\n$/);
  });

  it('logs in to a real sshd from inside', async () => {
    const { container, agent, keys, inside } = await bridged(['work']);
    // In the network of the container, which has no other.
    const sshd = await SshServer.start({ networkOf: await container.pid() });
    try {
      await sshd.authorize(await readFile(`${keys[0]}.pub`, 'utf8'));
      const hostKey = await readFile(`${sshd.dir}/host-key.pub`, 'utf8');
      await container.execOk(['sh', '-c', `cat > /home/dev/known_hosts`], {
        input: `[127.0.0.1]:${sshd.port} ${hostKey}`,
      });
      const { USER = 'root' } = process.env;
      const login = await inside(
        `ssh -F none -o BatchMode=yes -o UserKnownHostsFile=/home/dev/known_hosts -p ${sshd.port} ${USER}@127.0.0.1 echo logged in`,
      );
      expect(login).toMatchObject({ status: 0 });
      expect(login.stdout.toString()).toBe('logged in\n');
      // Without the agent's key there is no way in.
      await run('ssh-add', ['-D'], { env: agent.env });
      expect(
        (
          await inside(
            `ssh -F none -o BatchMode=yes -o UserKnownHostsFile=/home/dev/known_hosts -p ${sshd.port} ${USER}@127.0.0.1 true`,
          )
        ).status,
      ).toBe(255);
    } finally {
      await sshd.stop();
    }
  });

  it('is beside the gpg-agent, and `env` says where', async () => {
    const { person, container, name } = await personWithContainer(docker);
    const agent = await startSshAgent();
    await agent.addKey('work');
    person.env.SSH_AUTH_SOCK = agent.socketPath;
    const up = await person.json<Up>('up', name);
    expect(up.sockets.map(({ type }) => type).sort()).toEqual(['gpg-agent', 'ssh-agent']);
    const exports = await person.ok('env', name);
    expect(exports).toBe('export SSH_AUTH_SOCK=/root/.ssh/agent.sock\n');
    expect(await container.execOk(['sh', '-c', `${exports} ssh-add -l`])).toContain('work');
    await person.ok('down', name);
    // The directory was the bridge's, too.
    expect((await container.exec(['ls', '/root/.ssh'])).status).not.toBe(0);
  });
});
