import { existsSync, lstatSync, mkdirSync, readFileSync, rmSync, statSync, symlinkSync } from 'node:fs';
import { chmod, mkdir, rename, writeFile } from 'node:fs/promises';
import net from 'node:net';
import { dirname, join } from 'node:path';
import { GnupgHome } from '@gpg-bridge/test-support/gnupg-home';
import { run, runOk } from '@gpg-bridge/test-support/process';
import { SocketHolder } from '@gpg-bridge/test-support/socket-holder';
import type { TestedRuntime } from '@gpg-bridge/test-support/socket-server';
import { DATA, OPEN } from '@gpg-bridge/test-support/wire';
import { expect, it, onTestFinished } from 'vitest';
import { Client, Target } from './target.ts';

const identityOf = (path: string) => {
  const { dev, ino } = lstatSync(path, { bigint: true });
  return { dev: String(dev), ino: String(ino) };
};

/** An agent elsewhere, whose extra socket is what forwards lead to. */
async function agentElsewhere(): Promise<GnupgHome> {
  const home = await GnupgHome.create();
  onTestFinished(() => home.remove());
  await home.launchAgent();
  return home;
}

async function withGnupgHome(runtime: TestedRuntime): Promise<[Target, string]> {
  const target = await Target.create(runtime);
  await mkdir(target.gnupgHome, { mode: 0o700 });
  const path = await target.gpgSocket();
  return [target, path];
}

/** Surroundings that only a mount namespace can give; without root, one of a user namespace. */
function surroundings(...commands: string[]): string[] {
  const flags = process.getuid?.() === 0 ? ['-m'] : ['-rm'];
  return ['unshare', ...flags, 'sh', '-c', `${commands.join(' && ')} && exec "$@"`, 'sh'];
}

/** Where the sockets go, and what may be there already. */
export function placeCases(runtime: TestedRuntime): void {
  it('listens where gpg looks without a GNUPGHOME, in a home that is not under /home', async () => {
    const target = await Target.create(runtime, { GNUPGHOME: undefined });
    const prefix = surroundings('mount -t tmpfs none /run/user 2>/dev/null || mount -t tmpfs none /run');
    const server = await target.serve({ gpg: true, ssh: true }, { prefix });
    const { sockets } = await server.ready();
    expect(sockets.map(({ path }) => path).sort()).toEqual(
      [join(target.home, '.gnupg/S.gpg-agent'), target.sshSocket].sort(),
    );
    expect(statSync(join(target.home, '.gnupg')).mode & 0o777).toBe(0o700);
  });

  it('listens in /run/user where that is in place', async () => {
    const target = await Target.create(runtime, { GNUPGHOME: undefined });
    const prefix = surroundings(
      'mount -t tmpfs none /run',
      'mkdir -p /run/user',
      'mkdir -m 700 /run/user/$(id -u)',
    );
    const server = await target.serve({ gpg: true }, { prefix });
    const { sockets } = await server.ready();
    const path = `/run/user/${process.getuid?.()}/gnupg/S.gpg-agent`;
    const uid = process.getuid?.() === 0 ? path : path.replace(/\d+/, '0');
    expect(sockets).toEqual([{ type: 'gpg-agent', path: uid }]);
    const client = await Client.connect(`/proc/${server.child.pid}/root${uid}`);
    const { stream } = await server.next(OPEN);
    server.send(DATA, stream, 'OK\n');
    await client.take(3);
  });

  it('serves the other socket when a home is read-only', async () => {
    const target = await Target.create(runtime);
    const prefix = surroundings(
      `mount --bind ${target.home} ${target.home}`,
      `mount -o remount,ro,bind ${target.home}`,
    );
    const server = await target.serve({ gpg: true, ssh: true }, { prefix });
    const { sockets, warnings } = await server.ready();
    expect(sockets.map(({ type }) => type)).toEqual(['gpg-agent']);
    expect(warnings.join()).toMatch(/\.ssh.*read-only/i);
  });

  it('says why when no socket can be made', async () => {
    const target = await Target.create(runtime);
    const prefix = surroundings(
      `mount --bind ${target.root} ${target.root}`,
      `mount -o remount,ro,bind ${target.root}`,
    );
    const server = await target.serve({ gpg: true, ssh: true }, { prefix });
    const { sockets, failures } = await server.ready();
    expect(sockets).toEqual([]);
    const text = failures.map(({ message }) => message).join('\n');
    expect(text).toMatch(/\.ssh.*read-only/i);
    expect(text).toContain(target.gnupgHome);
    expect(await server.stop()).toBe(0);
  });

  it('refuses a path that is too long for a socket, and serves the other', async () => {
    const target = await Target.create(runtime);
    const long = join(target.root, 'x'.repeat(100));
    const env = { ...target.env, GNUPGHOME: long };
    const server = await target.serve({ gpg: true, ssh: true }, { env });
    const { sockets, warnings } = await server.ready();
    expect(sockets.map(({ type }) => type)).toEqual(['ssh-agent']);
    expect(warnings.join()).toMatch(/bytes and a socket's may have 10\d/);
    expect(existsSync(long)).toBe(false);
  });

  it('does without gpg in the target, for ssh', async () => {
    const target = await Target.create(runtime);
    const found = await run('sh', ['-c', 'for n in gpg gpgconf; do command -v $n; done']);
    const hide = found.stdout.toString().trim().split('\n');
    const prefix = surroundings(...hide.map((path) => `mount --bind /dev/null $(readlink -f ${path})`));
    const server = await target.serve({ gpg: true, ssh: true }, { prefix });
    const { sockets, warnings } = await server.ready({ keys: 'whatever' });
    expect(sockets.map(({ type }) => type)).toEqual(['ssh-agent']);
    expect(warnings.join()).toMatch(/gpg.*Install/);
    await Client.open(server, target.sshSocket);
  });

  it("stops the target's own gpg-agent, and says so", async () => {
    const target = await Target.create(runtime);
    await target.withOwnAgent();
    const path = await target.gpgSocket();
    const own = await Client.connect(path);
    const server = await target.serve({ gpg: true });
    const { warnings } = await server.ready();
    expect(warnings.join()).toMatch(/stopped the target's own gpg-agent/);
    await own.end();
    const [client, id] = await Client.open(server, path);
    server.send(DATA, id, 'OK from the host\n');
    expect((await client.take(17)).toString()).toBe('OK from the host\n');
  });

  it('leaves a forward alone, and serves the other socket', async () => {
    const [target, path] = await withGnupgHome(runtime);
    const elsewhere = await agentElsewhere();
    const holder = await SocketHolder.start(path, { relayTo: await elsewhere.socket('agent-extra-socket') });
    const before = identityOf(path);
    const server = await target.serve({ gpg: true, ssh: true });
    const { sockets, warnings } = await server.ready({ keys: 'not even looked at' });
    expect(sockets.map(({ type }) => type)).toEqual(['ssh-agent']);
    expect(warnings.length).toBe(1);
    expect(warnings[0]).toMatch(/another forward .*may already work.*--takeover/);
    // Who it is can be told only as far as the kernel's list, read while it changes, has it.
    const pid = /pid (\d+)/.exec(warnings[0]!)?.[1] ?? String(holder.pid);
    expect(pid).toBe(String(holder.pid));
    expect(identityOf(path)).toEqual(before);
    await server.stop();
    expect(identityOf(path)).toEqual(before);
  });

  it('takes the place of a forward when told to', async () => {
    const [target, path] = await withGnupgHome(runtime);
    const elsewhere = await agentElsewhere();
    await SocketHolder.start(path, { relayTo: await elsewhere.socket('agent-extra-socket') });
    const server = await target.serve({ gpg: true, takeover: true });
    const { warnings } = await server.ready();
    expect(warnings.join()).toMatch(/another forward/);
    await Client.open(server, path);
  });

  it('does not stop an agent elsewhere that a relay leads to', async () => {
    const [target, path] = await withGnupgHome(runtime);
    const elsewhere = await agentElsewhere();
    const main = await elsewhere.socket('agent-socket');
    const watching = await Client.connect(main);
    await SocketHolder.start(path, { relayTo: main });
    const server = await target.serve({ gpg: true });
    expect((await server.ready()).failures).toMatchObject([{ code: 'SOCKET_HELD_BY_FORWARD' }]);
    watching.write('GETINFO pid\n');
    expect((await watching.take(20)).toString()).toMatch(/^OK /);
  });

  it.each(['silent', 'close'] as const)('replaces a socket whose listener is %s', async (behaviour) => {
    const [target, path] = await withGnupgHome(runtime);
    await SocketHolder.start(path, behaviour);
    const server = await target.serve({ gpg: true, probeMs: 300 });
    const { warnings } = await server.ready();
    expect(warnings.join()).toMatch(/does not answer/);
    await Client.open(server, path);
  });

  it('refuses the place of a listener that speaks otherwise', async () => {
    const [target, path] = await withGnupgHome(runtime);
    await SocketHolder.start(path, 'garbage');
    const server = await target.serve({ gpg: true, ssh: true });
    const { sockets } = await server.ready();
    expect(sockets.map(({ type }) => type)).toEqual(['ssh-agent']);
  });

  it('replaces dead sockets without a word', async () => {
    const [target, path] = await withGnupgHome(runtime);
    await mkdir(dirname(target.sshSocket), { mode: 0o700 });
    for (const place of [path, target.sshSocket]) await (await SocketHolder.start(place, 'silent')).end();
    const server = await target.serve({ gpg: true, ssh: true });
    const { sockets, warnings } = await server.ready();
    expect(warnings).toEqual([]);
    for (const { path } of sockets) await Client.open(server, path);
  });

  it('treats the place of the ssh socket alike', async () => {
    const target = await Target.create(runtime);
    await mkdir(dirname(target.sshSocket), { mode: 0o700 });
    const agent = net.createServer((client) => {
      client.on('error', () => {}).on('data', () => client.write(Buffer.from([0, 0, 0, 5, 12, 0, 0, 0, 0])));
    });
    await new Promise<void>((resolve) => agent.listen(target.sshSocket, resolve));
    onTestFinished(() => void agent.close());
    const server = await target.serve({ ssh: true });
    expect((await server.ready()).failures).toMatchObject([{ code: 'SOCKET_HELD_BY_FORWARD' }]);
    await server.stop();
    const taking = await target.serve({ ssh: true, takeover: true });
    await taking.ready();
    await Client.open(taking, target.sshSocket);
  });

  it.each([
    ['a regular file', (path: string) => writeFile(path, '%Assuan%\nsocket=/elsewhere\n')],
    ['a symbolic link', async (path: string) => symlinkSync('/nowhere/S.gpg-agent', path)],
    ['a directory', async (path: string) => mkdirSync(path)],
  ])('does not touch %s in its place', async (_name, make) => {
    const [target, path] = await withGnupgHome(runtime);
    await make(path);
    const before = identityOf(path);
    const server = await target.serve({ gpg: true, ssh: true });
    const { sockets, warnings } = await server.ready();
    expect(sockets.map(({ type }) => type)).toEqual(['ssh-agent']);
    expect(warnings.join()).toContain(path);
    await server.stop();
    expect(identityOf(path)).toEqual(before);
  });

  it("refuses the host's own agent without a word to it", async () => {
    const [target, path] = await withGnupgHome(runtime);
    let connections = 0;
    const agent = net.createServer((client) => {
      connections++;
      client.destroy();
    });
    await new Promise<void>((resolve) => agent.listen(path, resolve));
    onTestFinished(() => void agent.close());
    const before = identityOf(path);
    const server = await target.serve({
      gpg: true,
      ssh: true,
      takeover: true,
      hostSockets: [{ dev: '1', ino: '2' }, before],
    });
    const { sockets, warnings } = await server.ready({ keys: 'not even looked at' });
    expect(sockets.map(({ type }) => type)).toEqual(['ssh-agent']);
    expect(warnings.length).toBe(1);
    expect(warnings[0]).toMatch(/agent of the host itself/);
    expect(connections).toBe(0);
    expect(identityOf(path)).toEqual(before);
  });

  it("does not take a file of this machine for the host's agent on another", async () => {
    const [target, path] = await withGnupgHome(runtime);
    await (await SocketHolder.start(path, 'silent')).end();
    const server = await target.serve({ gpg: true, hostSockets: [{ ...identityOf(path), boot: 'another' }] });
    const { sockets } = await server.ready();
    expect(sockets.map(({ type }) => type)).toEqual(['gpg-agent']);
  });

  it('refuses a directory that is shared with others', async () => {
    const target = await Target.create(runtime);
    const shared = join(target.root, 'shared');
    await mkdir(shared);
    await chmod(shared, 0o1777);
    const server = await target.serve({ ssh: true, sshDirectory: shared });
    const { failures } = await server.ready();
    expect(failures.map(({ message }) => message).join()).toMatch(/shared with other users/);
    expect(lstatSync(shared).mode & 0o7777).toBe(0o1777);
  });

  it('takes its place back from a gpg-agent, and goes on with its streams', async () => {
    const target = await Target.create(runtime);
    // An agent that starts later would find the bridge there: so it starts before, and gets its place later.
    await target.withOwnAgent();
    const path = await target.gpgSocket();
    const running = await Client.connect(path);
    await rename(path, `${path}.aside`);
    const server = await target.serve({ gpg: true });
    await server.ready();
    const [before, id] = await Client.open(server, path);
    await rename(`${path}.aside`, path);
    await server.says(/stopped the target's own gpg-agent[\s\S]*took its place back/);
    await running.end();
    const [after, afterId] = await Client.open(server, path);
    for (const [client, stream] of [
      [before, id],
      [after, afterId],
    ] as const) {
      server.send(DATA, stream, 'served');
      expect((await client.take(6)).toString()).toBe('served');
    }
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(await server.stop()).toBe(0);
    await target.expectNoSockets();
  });

  it('makes its socket again when that was removed', async () => {
    const target = await Target.create(runtime);
    const server = await target.serveSsh();
    rmSync(target.sshSocket);
    await server.says(/took its place back/);
    await Client.open(server, target.sshSocket);
    await rename(dirname(target.sshSocket), join(target.root, 'moved'));
    await server.says(/took its place back[\s\S]*took its place back/);
    await Client.open(server, target.sshSocket);
  });

  it('leaves a forward that took its place there, also at the end', async () => {
    const target = await Target.create(runtime);
    const server = await target.serve({ gpg: true, takeover: true });
    await server.ready();
    const path = await target.gpgSocket();
    const elsewhere = await agentElsewhere();
    const beside = join(target.root, 'f');
    await SocketHolder.start(beside, { relayTo: await elsewhere.socket('agent-extra-socket') });
    await runOk('mv', ['-f', beside, path]);
    const forward = identityOf(path);
    await server.says(/something replaced the socket.*another forward/);
    expect(await server.stop()).toBe(0);
    expect(identityOf(path)).toEqual(forward);
  });

  it('leaves a file that took its place there', async () => {
    const target = await Target.create(runtime);
    const server = await target.serveSsh();
    await writeFile(`${target.sshSocket}.new`, 'a file');
    await rename(`${target.sshSocket}.new`, target.sshSocket);
    await server.says(/something replaced the socket/);
    await server.stop();
    expect(readFileSync(target.sshSocket, 'utf8')).toBe('a file');
  });
}
