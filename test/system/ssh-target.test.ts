import { existsSync } from 'node:fs';
import { copyFile, readdir, readFile, writeFile } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { delimiter, join } from 'node:path';
import type { Up } from '@gpg-bridge/test-support/bridged';
import { Person } from '@gpg-bridge/test-support/cli';
import { TestClient } from '@gpg-bridge/test-support/client-pair';
import { PATIENT } from '@gpg-bridge/test-support/patient';
import { runOk } from '@gpg-bridge/test-support/process';
import { requireRuntime, requireSystem } from '@gpg-bridge/test-support/requirements';
import { writeScript } from '@gpg-bridge/test-support/script';
import { SSH_HOST, SshServer, type SshServerOptions } from '@gpg-bridge/test-support/sshd';
import { TcpRelay } from '@gpg-bridge/test-support/tcp-relay';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it, onTestFinished } from 'vitest';

/** A person whose ssh knows the test's server by name. */
async function personAndServer(options: SshServerOptions = {}) {
  const server = await SshServer.start(options);
  onTestFinished(() => server.stop());
  const person = await Person.create();
  await useSsh(person, `-F '${server.configPath}'`);
  return { person, server };
}

requireSystem('sshd')('a target over ssh', () => {
  describe.each(['node', 'perl', 'native'] as const)('served by %s', (runtime) => {
    requireRuntime(runtime)('alone', () => {
      it('signs there with the host’s key', async () => {
        const { person, server } = await personAndServer();
        const up = await person.json<Up>('up', `ssh:${SSH_HOST}`, '--runtime', runtime);
        expect(up).toMatchObject({ target: `ssh:${SSH_HOST}`, id: SSH_HOST, runtime });
        const signed = await server.ssh([
          'echo hello | gpg --batch --clear-sign | gpg --batch --status-fd 1 --verify',
        ]);
        expect(signed.stdout.toString()).toContain(`VALIDSIG ${person.fingerprint}`);
        await person.ok('down', `ssh:${SSH_HOST}`);
        for (const { path } of up.sockets) expect(existsSync(path)).toBe(false);
      });
    });
  });

  it('ends by itself when the server goes away', async () => {
    const { person, server } = await personAndServer();
    const { sockets } = await person.json<Up>('up', `ssh:${SSH_HOST}`);
    expect(sockets.map(({ path }) => existsSync(path))).toEqual([true]);
    await server.stop();
    await person.settled();
    expect(await person.json('status')).toEqual([]);
  });

  it('is one bridge by each of its names, and another one where the configuration leads elsewhere', async () => {
    const { person, server } = await personAndServer();
    const first = await person.json<Up>('up', `ssh:${SSH_HOST}`);
    const { username } = userInfo();
    expect(await person.json('up', `ssh:${username}@${SSH_HOST}`)).toMatchObject({ pid: first.pid });
    expect(await person.ok('status')).toContain(`where     ${username}@127.0.0.1 port ${server.port}`);

    const other = await SshServer.start();
    onTestFinished(() => other.stop());
    await useSsh(person, `-F '${other.configPath}'`);
    expect(await person.ok('down', `ssh:${SSH_HOST}`)).toContain('There was no bridge');
    const second = await person.json<Up>('up', `ssh:${SSH_HOST}`);
    expect(second.pid).not.toBe(first.pid);
    for (const { path } of [...first.sockets, ...second.sockets]) expect(existsSync(path)).toBe(true);
    await person.ok('down', `ssh:${SSH_HOST}`);
    expect(await person.json('status')).toMatchObject([{ pid: first.pid }]);
  });

  it.each(['freezes', 'loses everything'])(
    'is attached to again after the network %s, with --restart',
    async (how) => {
      const server = await SshServer.start();
      onTestFinished(() => server.stop());
      const relay = await TcpRelay.to(server.port);
      const person = await Person.create();
      person.env.GPG_BRIDGE_HEARTBEAT = '400';
      await useSsh(person, `-F '${server.configPath}' -o Port=${relay.port} -o ConnectTimeout=5`);
      const { pid, sockets } = await person.json<Up>('up', `ssh:${SSH_HOST}`, '--restart');
      const path = sockets[0]!.path;
      const client = await TestClient.connect(path);
      if (how === 'freezes') relay.freeze();
      else relay.drop();
      expect(await client.readsAll()).toMatch(/^OK [^\n]*\nERR 67108941 No agent running[^\n]*\n$/);
      client.socket.destroy();
      await expect.poll(() => existsSync(path), PATIENT).toBe(false);
      const state = async () => (await person.json<{ state: string; pid: number }[]>('status'))[0];
      await expect.poll(state, PATIENT).toMatchObject({ state: 'waiting-for-target', pid });
      relay.pass();
      await expect.poll(state, { ...PATIENT, timeout: 60_000 }).toMatchObject({ state: 'ready', pid });
      const signed = await server.ssh(['echo hello | gpg --batch --no-autostart --clear-sign']);
      expect(signed.stderr).toBe('');
      expect(signed.status).toBe(0);
    },
  );

  it('is not taken for another machine with another host key, with --restart', async () => {
    const [one, two] = [await SshServer.start(), await SshServer.start()];
    for (const server of [one, two]) onTestFinished(() => server.stop());
    await two.authorize(await readFile(`${one.clientKeyPath}.pub`, 'utf8'));
    const relay = await TcpRelay.to(one.port);
    const person = await Person.create();
    const careless = `-F '${one.configPath}' -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null`;
    await useSsh(person, `${careless} -o Port=${relay.port}`);
    const { pid } = await person.json<Up>('up', `ssh:${SSH_HOST}`, '--restart');
    const log = person.start(['log', `ssh:${SSH_HOST}`, '-f']);
    await log.printed(/bridged ssh:/);

    relay.leadTo(one.port);
    await log.printed(/bridged ssh:.*bridged ssh:/s);
    relay.leadTo(two.port);
    await log.printed(/another host key than when the bridge was started/);
    expect(await readdir(join(two.home, '.gnupg'))).toEqual([]);
    expect(await person.json('status')).toMatchObject([{ pid }]);
    const status = await person.ok('status');
    expect(status).toContain('waiting for target');
    expect(status).toMatch(/error .*: the machine has another host key than when the bridge was started\./);
    relay.leadTo(one.port);
    await log.printed(/another host key.*bridged ssh:/s);
  });

  it('has the host key of the machine itself, whatever the banner of a jump host says, with --restart', async () => {
    const [one, two] = [await SshServer.start(), await SshServer.start()];
    for (const server of [one, two]) onTestFinished(() => server.stop());
    await two.authorize(await readFile(`${one.clientKeyPath}.pub`, 'utf8'));
    const [, otherKey] = (await readFile(join(two.dir, 'host-key.pub'), 'utf8')).split(' ');
    const dir = await tempDir();
    // In the words of an option that `ssh` gets, of `ssh -v`, and of a check that failed.
    const lies = [
      `gpg-bridge-host-key ${otherKey}`,
      `debug1: Server host key: ssh-ed25519 ${otherKey}`,
      `gpg-bridge-test ssh-ed25519 ${otherKey}`,
    ];
    await writeFile(join(dir, 'banner'), `${lies.join('\n')}\nno end of line: `);
    const jump = await SshServer.start({ config: [`Banner ${join(dir, 'banner')}`] });
    onTestFinished(() => jump.stop());
    const relay = await TcpRelay.to(one.port);
    const careless = ['StrictHostKeyChecking no', 'UserKnownHostsFile /dev/null', 'LogLevel INFO'];
    const login = (server: SshServer) => [
      `User ${userInfo().username}`,
      `IdentityFile ${server.clientKeyPath}`,
      'HostName 127.0.0.1',
      ...careless,
    ];
    const config = [
      'Host jump',
      ...login(jump),
      `Port ${jump.port}`,
      'Host target',
      ...login(one),
      `Port ${relay.port}`,
      'ProxyJump jump',
    ];
    await writeFile(join(dir, 'config'), `${config.join('\n')}\n`);
    const person = await Person.create();
    await useSsh(person, `-F '${join(dir, 'config')}'`);
    const { pid } = await person.json<Up>('up', 'ssh:target', '--restart');
    const log = person.start(['log', 'ssh:target', '-f']);
    await log.printed(/bridged ssh:/);

    relay.leadTo(one.port);
    await log.printed(/bridged ssh:.*(?:bridged ssh:|another host key)/s);
    expect(log.stdout).not.toContain('another host key');
    relay.leadTo(two.port);
    await log.printed(/another host key than when the bridge was started/);
    expect(await readdir(join(two.home, '.gnupg'))).toEqual([]);
    expect(await person.json('status')).toMatchObject([{ pid, state: 'waiting-for-target' }]);
    relay.leadTo(one.port);
    await log.printed(/another host key.*bridged ssh:/s);
  });

  it('is the same machine with a renewed certificate for its host key, with --restart', async () => {
    const dir = await tempDir();
    const [ca, certificate] = [join(dir, 'ca'), join(dir, 'host-key-cert.pub')];
    const server = await SshServer.start({ config: [`HostCertificate ${certificate}`] });
    onTestFinished(() => server.stop());
    await runOk('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', ca]);
    await copyFile(join(server.dir, 'host-key.pub'), join(dir, 'host-key.pub'));
    const certify = () =>
      runOk('ssh-keygen', ['-q', '-s', ca, '-h', '-I', 'host', '-n', SSH_HOST, join(dir, 'host-key.pub')]);
    await certify();
    const known = join(dir, 'known_hosts');
    await writeFile(known, `@cert-authority ${SSH_HOST} ${await readFile(`${ca}.pub`, 'utf8')}`);
    const relay = await TcpRelay.to(server.port);
    const person = await Person.create();
    await useSsh(person, `-F '${server.configPath}' -o Port=${relay.port} -o UserKnownHostsFile='${known}'`);
    await person.ok('up', `ssh:${SSH_HOST}`, '--restart');
    const log = person.start(['log', `ssh:${SSH_HOST}`, '-f']);
    await log.printed(/bridged ssh:/);

    await certify();
    relay.leadTo(server.port);
    await log.printed(/bridged ssh:.*(?:bridged ssh:|another host key)/s);
    expect(log.stdout).not.toContain('another host key');
  });

  it('is the same machine when another key of its became known, with --restart', async () => {
    const dir = await tempDir();
    const rsa = join(dir, 'host-key');
    await runOk('ssh-keygen', ['-q', '-t', 'rsa', '-N', '', '-f', rsa]);
    const server = await SshServer.start({ config: [`HostKey ${rsa}`] });
    onTestFinished(() => server.stop());
    const known = join(dir, 'known_hosts');
    const learn = async (key: string) =>
      writeFile(known, `${SSH_HOST} ${await readFile(`${key}.pub`, 'utf8')}`, { flag: 'a' });
    await learn(rsa);
    const relay = await TcpRelay.to(server.port);
    const person = await Person.create();
    await useSsh(person, `-F '${server.configPath}' -o Port=${relay.port} -o UserKnownHostsFile='${known}'`);
    await person.ok('up', `ssh:${SSH_HOST}`, '--restart');
    const log = person.start(['log', `ssh:${SSH_HOST}`, '-f']);
    await log.printed(/bridged ssh:/);

    await learn(join(server.dir, 'host-key')); // as a login of the person's own does
    relay.leadTo(server.port);
    await log.printed(/bridged ssh:.*(?:bridged ssh:|another host key)/s);
    expect(log.stdout).not.toContain('another host key');
  });

  it('says what ssh said when the machine can not be reached', async () => {
    const person = await Person.create();
    const nobodyListens = 1;
    await useSsh(person, `-F /dev/null -p ${nobodyListens}`);
    const { status, stderr } = await person.run(['up', 'ssh:127.0.0.1']);
    expect(status).toBe(3);
    expect(stderr).toMatch(/^gpg-bridge: .*Connection refused.*\n$/);
  });
});

requireSystem('sshd', 'shells')('a target over ssh', () => {
  it.each(['csh', 'tcsh', 'zsh', 'fish'])('does not mind who logs in with %s', async (shell) => {
    const program = (await runOk('sh', ['-c', `command -v ${shell}`])).trim();
    const { person } = await personAndServer({
      config: [`ForceCommand ${program} -c "$SSH_ORIGINAL_COMMAND"`],
    });
    const up = await person.json<Up>('up', `ssh:${SSH_HOST}`);
    expect(up.sockets.map(({ path }) => existsSync(path))).toEqual([true]);
    await person.ok('down', `ssh:${SSH_HOST}`);
  });
});

/** Puts options before those of the person's ssh, as a configuration file would. */
async function useSsh(person: Person, options: string): Promise<void> {
  const programs = await tempDir();
  await writeScript(programs, 'ssh', `exec /usr/bin/ssh ${options} "$@"`);
  person.env.PATH = `${programs}${delimiter}${person.env.PATH}`;
}
