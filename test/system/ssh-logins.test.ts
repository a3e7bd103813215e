import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { Person } from '@gpg-bridge/test-support/cli';
import { run, runOk } from '@gpg-bridge/test-support/process';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import { startSshAgent, type TestSshAgent } from '@gpg-bridge/test-support/ssh-agent';
import { SSH_HOST, SshServer } from '@gpg-bridge/test-support/sshd';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { expect, it, onTestFinished } from 'vitest';

interface Entry {
  operation: string;
  name?: string;
  key?: string;
  outcome: string;
}

/** Somebody with a bridge to an ssh-agent, and how to log in with it from the target. */
async function bridged(sshd: SshServer, agentSocket: string, somebody?: Person) {
  const person = somebody ?? (await Person.create({ key: false }));
  person.env.SSH_AUTH_SOCK = agentSocket;
  const target = await person.localHome();
  await person.ok('up', `local:${target.dir}`, '--no-gpg');
  const config = join(await tempDir(), 'config');
  await writeFile(
    config,
    (await readFile(sshd.configPath, 'utf8'))
      .replace(/IdentityFile .*/, 'IdentityFile none')
      .replace('IdentitiesOnly yes', 'IdentitiesOnly no')
      .replace('IdentityAgent none', 'IdentityAgent SSH_AUTH_SOCK'),
  );
  const env = { ...process.env, LC_ALL: 'C', SSH_AUTH_SOCK: join(target.dir, 'agent.sock') };
  return {
    login: (...options: string[]) => run('ssh', ['-F', config, ...options, SSH_HOST, 'echo in'], { env }),
    log: () => person.json<Entry[]>('log', `local:${target.dir}`),
  };
}

async function startServer(authority?: string): Promise<SshServer> {
  const config = authority ? [`TrustedUserCAKeys ${authority}.pub`] : [];
  const sshd = await SshServer.start({ config });
  onTestFinished(() => sshd.stop());
  return sshd;
}

/** A key in the agent, and a certificate of it that lets the user of the tests log in. */
async function certified(agent: TestSshAgent) {
  const authority = join(agent.dir, 'authority');
  await runOk('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', authority]);
  const key = await agent.addKey('certified');
  const { username } = userInfo();
  await runOk('ssh-keygen', ['-q', '-s', authority, '-I', 'id', '-n', username, `${key}.pub`]);
  return { authority, key, certificate: `${key}-cert.pub` };
}

requireSystem('sshd')('a login over a bridge', () => {
  it.each(['ed25519', 'ecdsa', 'rsa'])('works with an %s key', async (type) => {
    const agent = await startSshAgent();
    const key = await agent.addKey('work', type);
    const sshd = await startServer();
    await sshd.authorize(await readFile(`${key}.pub`, 'utf8'));
    const { login, log } = await bridged(sshd, agent.socketPath);
    const done = await login();
    expect([done.status, done.stdout.toString()]).toEqual([0, 'in\n']);
    expect(await log()).toMatchObject([
      { operation: 'ssh login', name: 'work', key: await agent.fingerprint(key), outcome: 'ok' },
    ]);
  });

  it('works with a certificate that the agent lists', async () => {
    const agent = await startSshAgent();
    const { authority, key } = await certified(agent);
    await runOk('ssh-add', ['-q', '-d', `${key}.pub`], { env: agent.env });
    await runOk('ssh-add', ['-q', key], { env: agent.env });
    const { login, log } = await bridged(await startServer(authority), agent.socketPath);
    const done = await login();
    expect([done.status, done.stdout.toString()]).toEqual([0, 'in\n']);
    expect((await log()).map(({ outcome }) => outcome)).not.toContain('refused');
  });

  it('works with a certificate in a file whose key the agent lists', async () => {
    const agent = await startSshAgent();
    const { authority, key, certificate } = await certified(agent);
    const moved = join(await tempDir(), 'id-cert.pub');
    await rename(certificate, moved);
    await rm(key); // the agent alone has it now
    const { login, log } = await bridged(await startServer(authority), agent.socketPath);
    const done = await login('-o', `CertificateFile=${moved}`);
    expect([done.status, done.stdout.toString()]).toEqual([0, 'in\n']);
    expect((await log()).at(-1)).toMatchObject({ key: await agent.fingerprint(key), outcome: 'ok' });
  });

  it('works with a key of gpg-agent', async () => {
    const person = await Person.create();
    const { home, fingerprint } = person;
    const subkey = ['--quick-add-key', fingerprint, 'rsa2048', 'auth', 'never'];
    await home.gpgOk(['--batch', '--passphrase', '', ...subkey]);
    const listing = await home.gpgOk(['--with-colons', '--with-keygrip', '--list-keys', fingerprint]);
    const keygrip = [...listing.matchAll(/^grp:+([0-9A-F]{40}):/gm)].at(-1)![1]!;
    await writeFile(join(home.dir, 'sshcontrol'), `${keygrip}\n`);
    await home.launchAgent();
    const sshd = await startServer();
    await sshd.authorize(await home.gpgOk(['--export-ssh-key', fingerprint]));
    const { login, log } = await bridged(sshd, await home.socket('agent-ssh-socket'), person);
    expect((await login()).stdout.toString()).toBe('in\n');
    expect(await log()).toMatchObject([{ operation: 'ssh login', outcome: 'ok' }]);
  });
});
