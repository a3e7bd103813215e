import { chown, cp, mkdir, readdir, readFile } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { goesPastEngine, personWithContainer, signInside, type Up } from '@gpg-bridge/test-support/bridged';
import { PROGRAM } from '@gpg-bridge/test-support/cli';
import type { ContainerEngine } from '@gpg-bridge/test-support/engine/containers';
import { DockerEngine } from '@gpg-bridge/test-support/engine/docker';
import { sharedEngine } from '@gpg-bridge/test-support/engine/shared';
import { SETUP_MS } from '@gpg-bridge/test-support/patient';
import { run, runOk } from '@gpg-bridge/test-support/process';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { expect, it, onTestFinished } from 'vitest';

/** Nobody in particular. */
const USER = 31_000;

/** A place that a user who is not root has for themselves. */
async function placeOf(user: number): Promise<string> {
  const dir = await tempDir();
  await chown(dir, user, user);
  return dir;
}

/** A socket of the engine's that a user may connect to, as the group docker may to its usual one. */
async function engineSocketFor(engine: ContainerEngine, user: number): Promise<string> {
  const path = join(await placeOf(user), 'docker.sock');
  const relay = createServer({ allowHalfOpen: true }, (client) => {
    const upstream = connect({ path: engine.socketPath, allowHalfOpen: true });
    client.pipe(upstream).pipe(client);
    for (const [one, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      one.on('error', () => other.destroy());
      one.on('close', () => other.destroy());
    }
  });
  await new Promise<void>((listening) => relay.listen(path, listening));
  onTestFinished(() => void relay.close());
  await chown(path, user, user);
  return path;
}

requireSystem('docker')('a user who is not root', () => {
  it('has everything go through the engine, and is told nothing of it', { timeout: SETUP_MS }, async () => {
    const engine = await sharedEngine('docker');
    const container = await engine.startContainer();
    onTestFinished(() => container.remove());
    const home = await placeOf(USER);
    const dist = join(await placeOf(USER), 'dist');
    await cp(dirname(PROGRAM), dist, { recursive: true }); // the clone may be where only root gets to
    const env = {
      PATH: process.env.PATH,
      HOME: home,
      GNUPGHOME: join(home, 'g'),
      GPG_BRIDGE_STATE_DIR: join(home, 's'),
      DOCKER_HOST: `unix://${await engineSocketFor(engine, USER)}`,
      LC_ALL: 'C',
    };
    const asUser = ['--reuid', String(USER), '--regid', String(USER), '--clear-groups', '--inh-caps=-all'];
    const user = (...command: string[]) => runOk('setpriv', [...asUser, ...command], { env, cwd: home });
    const bridge = (...words: string[]) => user(process.execPath, join(dist, 'gpg-bridge.js'), ...words);
    await mkdir(env.GNUPGHOME, { mode: 0o700 });
    await chown(env.GNUPGHOME, USER, USER);
    const key = ['--quick-gen-key', 'Ada Test <ada@example.org>', 'ed25519', 'default', 'never'];
    await user('gpg', '--batch', '--passphrase', '', ...key);
    onTestFinished(async () => {
      await bridge('down', '--all');
      await user('gpgconf', '--kill', 'gpg-agent');
    });
    const up = JSON.parse(await bridge('up', container.name, '--json', '--verbose')) as Up;
    expect(await goesPastEngine(up.pid, container)).toBe(false);
    expect(await signInside(container)).toContain('GOODSIG');
    const [file = ''] = (await readdir(env.GPG_BRIDGE_STATE_DIR)).filter((name) => name.endsWith('.log'));
    const lines = (await readFile(join(env.GPG_BRIDGE_STATE_DIR, file), 'utf8')).split('\n').filter(Boolean);
    const said = lines.map((line) => JSON.parse(line) as { level: string; message?: string });
    const about = said.filter(({ message = '' }) => /pipes can't be opened from here.*EACCES/.test(message));
    expect(about.map(({ level }) => level)).toEqual(['debug']);
    expect(await bridge('status', container.name)).not.toMatch(/pipe/);
  });
});

requireSystem('docker')('when', () => {
  it('the engine stands still, and the bridge goes past it', { timeout: SETUP_MS }, async () => {
    const engine = await DockerEngine.start();
    onTestFinished(() => engine.stop());
    const { person, container, name } = await personWithContainer(engine);
    const up = await person.json<Up>('up', name);
    expect(await goesPastEngine(up.pid, container)).toBe(true);
    const pid = await container.pid();
    // Not by the engine, which could not start it.
    const sign = () =>
      run('nsenter', [`--target=${pid}`, '--mount', '--pid', 'gpg', '--batch', '--clear-sign'], {
        env: { PATH: process.env.PATH, HOME: '/root' },
        input: 'hello',
      });
    process.kill(engine.pid, 'SIGSTOP');
    try {
      expect(await sign()).toMatchObject({ status: 0 });
    } finally {
      process.kill(engine.pid, 'SIGCONT');
    }
    process.kill(engine.pid, 'SIGKILL');
    await person.settled();
    expect(await person.json('status')).toEqual([]);
    expect((await run('ls', [`/proc/${pid}/root/root/.gnupg/S.gpg-agent`])).status).not.toBe(0);
    await engine.startDaemon();
  });
});
