import { chmodSync, existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { chmod, mkdir, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { importPublicKeys } from '@gpg-bridge/core/remote/keyring';
import { GnupgHome } from '@gpg-bridge/test-support/gnupg-home';
import { run } from '@gpg-bridge/test-support/process';
import type { TestedRuntime } from '@gpg-bridge/test-support/socket-server';
import { DATA, ERROR, OPEN } from '@gpg-bridge/test-support/wire';
import { expect, it, onTestFinished } from 'vitest';
import { Client, Target } from './target.ts';

async function hostWithKeys(...names: string[]): Promise<{ keys: Buffer[]; fingerprints: string[] }> {
  const host = await GnupgHome.create();
  onTestFinished(() => host.remove());
  const fingerprints: string[] = [];
  const keys: Buffer[] = [];
  for (const name of names) {
    const fingerprint = await host.createKey(name);
    fingerprints.push(fingerprint);
    keys.push((await host.gpg(['--export', fingerprint])).stdout);
  }
  return { keys, fingerprints };
}

const mode = (path: string) => statSync(path).mode & 0o7777;

/** Starting, public keys, and the end. */
export function startCases(runtime: TestedRuntime): void {
  it('says what it is and where its sockets are, which only their user can reach', async () => {
    const target = await Target.create(runtime);
    const server = await target.serve({ gpg: true, ssh: true });
    const ready = await server.ready();
    const gpgSocket = await target.gpgSocket();
    expect(ready.version).toBe(4);
    expect(ready.runtime).toBe(runtime === 'emulated' ? 'native' : runtime);
    expect(ready.system).toBe(process.platform);
    expect(ready.uid).toBe(process.getuid?.());
    expect(ready.home).toBe(target.home);
    expect(ready.warnings).toEqual([]);
    expect(ready.sockets).toContainEqual({ type: 'gpg-agent', path: gpgSocket });
    expect(ready.sockets).toContainEqual({ type: 'ssh-agent', path: target.sshSocket });
    expect(ready.sockets.length).toBe(2);
    for (const path of [gpgSocket, target.sshSocket]) {
      expect(statSync(path).isSocket()).toBe(true);
      expect(mode(path)).toBe(0o600);
      expect(mode(dirname(path))).toBe(0o700);
    }
  });

  it('listens for ssh at once, and for gpg when the keys have come', async () => {
    const target = await Target.create(runtime);
    const server = await target.serve({ gpg: true, ssh: true });
    let giveKeys = (_keys: Buffer) => {};
    const keys = new Promise<Buffer>((resolve) => {
      giveKeys = resolve;
    });
    const ready = server.ready({ keys });
    await server.waitForFile(target.sshSocket);
    expect(existsSync(await target.gpgSocket())).toBe(false);
    giveKeys(Buffer.alloc(0));
    await ready;
    expect(existsSync(await target.gpgSocket())).toBe(true);
    expect(existsSync(join(target.gnupgHome, 'pubring.kbx'))).toBe(false);
  });

  it('puts the ssh socket where it is told to', async () => {
    const target = await Target.create(runtime);
    const server = await target.serve({ ssh: true, sshDirectory: target.gnupgHome });
    const { sockets, failures } = await server.ready();
    expect(failures).toEqual([]);
    expect(sockets).toEqual([{ type: 'ssh-agent', path: join(target.gnupgHome, 'agent.sock') }]);
    expect(existsSync(join(target.home, '.ssh'))).toBe(false);
  });

  it('imports the keys before it listens, and trusts those it is told to', async () => {
    const { keys, fingerprints } = await hostWithKeys('Mine', 'Somebody else');
    const target = await Target.create(runtime);
    const server = await target.serve({ gpg: true, trust: [fingerprints[0]!] });
    const { warnings } = await server.ready({ keys: Buffer.concat(keys) });
    expect(warnings).toEqual([]);
    const listing = await target.gpg('--with-colons', '--list-keys');
    for (const fingerprint of fingerprints) expect(listing).toContain(fingerprint);
    expect(await target.gpg('--export-ownertrust')).toContain(`${fingerprints[0]}:6:`);
    expect(await target.gpg('--export-ownertrust')).not.toContain(fingerprints[1]!);
    await server.says(/imported public keys: 2/);
    // No agent was started on the way: whoever connects is handed to the host.
    await Client.connect(await target.gpgSocket());
    await server.next(OPEN);
  });

  it('imports keys while clients are served', async () => {
    const { keys } = await hostWithKeys('First', 'Second', 'Third');
    const target = await Target.create(runtime);
    // A gpg that waits as long as the gate is there.
    const bin = join(target.root, 'bin');
    const gate = join(target.root, 'gate');
    await mkdir(bin);
    const real = (await run('sh', ['-c', 'command -v gpg'])).stdout.toString().trim();
    await writeFile(
      join(bin, 'gpg'),
      `#!/bin/sh\nwhile [ -e ${gate} ]; do sleep 0.02; done\nexec ${real} "$@"\n`,
    );
    await chmod(join(bin, 'gpg'), 0o755);
    const env = { ...target.env, PATH: `${bin}:${process.env.PATH}` };
    const server = await target.serve({ gpg: true }, { env });
    await server.ready({ keys: keys[0]! });
    await server.says(/imported public keys: 1/);

    await writeFile(gate, '');
    const more = { keys: Buffer.concat(keys.slice(1)), trust: [] };
    let done = false;
    const importing = importPublicKeys(more, server.operations).finally(() => {
      done = true;
    });
    const [client, id] = await Client.open(server, await target.gpgSocket());
    server.send(DATA, id, 'OK Pleased to meet you\n');
    await client.take(23);
    client.write('GETINFO version\n');
    await server.data(id, 16);
    expect(done).toBe(false);
    await rm(gate);
    expect(await importing).toEqual({ added: 2, updated: 0, unchanged: 0 });
    expect(await target.gpg('--list-keys')).toMatch(/First[\s\S]*Second[\s\S]*Third/);
  });

  it("keeps a user's own word about a key", async () => {
    const { keys, fingerprints } = await hostWithKeys('Mine', 'Distrusted');
    const target = await Target.create(runtime);
    await mkdir(target.gnupgHome, { mode: 0o700 });
    const never = `${fingerprints[1]}:3:\n`;
    await run('gpg', ['--batch', '--import-ownertrust'], { env: target.env, input: never });
    const server = await target.serve({ gpg: true, trust: fingerprints });
    await server.ready({ keys: Buffer.concat(keys) });
    const trust = await target.gpg('--export-ownertrust');
    expect(trust).toContain(`${fingerprints[0]}:6:`);
    expect(trust).toContain(never);
  });

  it('says so when keys can not be imported, and listens all the same', async () => {
    const target = await Target.create(runtime);
    const server = await target.serve({ gpg: true });
    const { warnings, sockets } = await server.ready({ keys: 'these are no keys' });
    expect(warnings.join()).toMatch(/import/);
    expect(sockets.length).toBe(1);
  });

  it("leaves the user's own files as they are", async () => {
    const { keys, fingerprints } = await hostWithKeys('From the host');
    const target = await Target.create(runtime);
    await mkdir(target.gnupgHome, { mode: 0o700 });
    const own = { ...target.env };
    const gen = ['--batch', '--passphrase', '', '--quick-gen-key', 'Own', 'ed25519', 'default', 'never'];
    expect((await run('gpg', gen, { env: own })).status).toBe(0);
    await run('gpgconf', ['--kill', 'gpg-agent'], { env: own });
    await writeFile(join(target.gnupgHome, 'gpg.conf'), 'no-greeting\n');
    await writeFile(join(target.gnupgHome, 'gpg-agent.conf'), 'default-cache-ttl 60\n');
    const privateDir = join(target.gnupgHome, 'private-keys-v1.d');
    const files = [
      join(target.gnupgHome, 'gpg.conf'),
      join(target.gnupgHome, 'gpg-agent.conf'),
      ...readdirSync(privateDir).map((name) => join(privateDir, name)),
    ];
    const contents = () => files.map((file) => readFileSync(file, 'latin1'));
    const before = contents();
    const trustBefore = await target.gpg('--export-ownertrust');
    const server = await target.serve({ gpg: true, trust: [fingerprints[0]!] });
    const { warnings } = await server.ready({ keys: keys[0]! });
    expect(warnings.join()).toContain("can't be used while the bridge is up");
    expect(await server.stop()).toBe(0);
    expect(contents()).toEqual(before);
    expect(await target.gpg('--list-keys')).toMatch(/Own[\s\S]*From the host/);
    const ownTrust = trustBefore.split('\n').filter((line) => line.endsWith(':6:'));
    expect(ownTrust.length).toBe(1);
    expect(await target.gpg('--export-ownertrust')).toContain(ownTrust[0]!);
    const clear = ['--batch', '--clearsign', '--local-user', 'Own'];
    expect((await run('gpg', clear, { env: own, input: 'text' })).status).toBe(0);
  });

  it('ends with its stdin, and takes along what it made', async () => {
    const target = await Target.create(runtime);
    const server = await target.serve({ gpg: true, ssh: true });
    await server.ready();
    const [client] = await Client.open(server, target.sshSocket);
    expect(await server.stop()).toBe(0);
    await client.end();
    await target.expectNoSockets();
    expect(existsSync(dirname(target.sshSocket))).toBe(false);
  });

  it('ends with its stdin while it still waits for keys', async () => {
    const target = await Target.create(runtime);
    const server = await target.serve({ gpg: true, ssh: true });
    void server.ready({ keys: new Promise(() => {}) });
    await server.waitForFile(target.sshSocket);
    expect(await server.stop()).toBe(0);
    await target.expectNoSockets();
  });

  it.each(['SIGTERM', 'SIGHUP', 'SIGINT'] as const)('removes its sockets on %s', async (signal) => {
    const target = await Target.create(runtime);
    const server = await target.serve({ gpg: true, ssh: true });
    await server.ready();
    server.child.kill(signal);
    await server.exited;
    await target.expectNoSockets();
  });

  it('ends when the host no longer reads', async () => {
    const target = await Target.create(runtime);
    const server = await target.serveSsh();
    server.child.stdout.destroy();
    await Client.connect(target.sshSocket);
    await server.exited;
    await target.expectNoSockets();
  });

  it('keeps a directory that it made and others use by now', async () => {
    const target = await Target.create(runtime);
    const server = await target.serveSsh();
    await writeFile(join(dirname(target.sshSocket), 'known_hosts'), 'kept');
    await server.stop();
    expect(readdirSync(dirname(target.sshSocket))).toEqual(['known_hosts']);
  });

  it('refuses a host of another version, and says which', async () => {
    const target = await Target.create(runtime);
    const server = await target.serve({ protocol: 2 });
    expect((await server.next(ERROR)).payload.toString()).toMatch(/version 2.* 4/);
    expect(await server.exited).toBe(1);
  });

  it('tightens a directory of its user that others can enter, and says so', async () => {
    const target = await Target.create(runtime);
    const dir = dirname(target.sshSocket);
    await mkdir(dir);
    chmodSync(dir, 0o755);
    const server = await target.serve({ ssh: true });
    const { warnings } = await server.ready();
    expect(mode(dir)).toBe(0o700);
    expect(warnings.join()).toContain('0755');
    await server.stop();
    expect(existsSync(dir)).toBe(true);
  });
}
