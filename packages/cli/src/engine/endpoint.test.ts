import { createHash } from 'node:crypto';
import { chmod, mkdir, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { writeScript } from '@gpg-bridge/test-support/script';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { ApiAddress } from './api-address.ts';
import { type DiscoveryOptions, discoverEndpoint } from './endpoint.ts';
import type { EngineKind } from './engine.ts';

/** A machine with nothing on it: a home, a runtime directory, and no system sockets. */
class Machine {
  private constructor(readonly root: string) {}

  static async create(): Promise<Machine> {
    return new Machine(await tempDir());
  }

  get configDir(): string {
    return join(this.root, '.docker');
  }

  path(name: string): string {
    return join(this.root, name);
  }

  discover(kind: EngineKind, env: NodeJS.ProcessEnv = {}, platform: NodeJS.Platform = 'linux') {
    const options: DiscoveryOptions = {
      platform,
      env: { XDG_RUNTIME_DIR: this.path('run'), ...env },
      home: this.root,
      systemSockets: { docker: this.path('system-docker.sock'), podman: this.path('system-podman.sock') },
    };
    return discoverEndpoint(kind, options);
  }

  async listen(name: string): Promise<string> {
    const path = this.path(name);
    await mkdir(dirname(path), { recursive: true });
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(path, resolve));
    onTestFinished(() => new Promise<void>((resolve) => server.close(() => resolve())));
    return path;
  }

  /** Certificates whose content is their name. */
  async addCertificates(directory: string, names: readonly string[]): Promise<void> {
    await mkdir(directory, { recursive: true });
    for (const name of names) await writeFile(join(directory, `${name}.pem`), name);
  }

  async setCurrentContext(name: string, configDir = this.configDir): Promise<void> {
    await mkdir(configDir, { recursive: true });
    await writeFile(join(configDir, 'config.json'), JSON.stringify({ auths: {}, currentContext: name }));
  }

  async addContext(name: string, meta: unknown, configDir = this.configDir): Promise<void> {
    const digest = createHash('sha256').update(name).digest('hex');
    const dir = join(configDir, 'contexts/meta', digest);
    await mkdir(dir, { recursive: true });
    await writeFile(join(dir, 'meta.json'), typeof meta === 'string' ? meta : JSON.stringify(meta));
  }
}

const contextAt = (host: string) => ({ Name: 'any', Metadata: {}, Endpoints: { docker: { Host: host } } });

describe('discoverEndpoint for docker', () => {
  it('takes the Unix socket that DOCKER_HOST names, before any context', async () => {
    const machine = await Machine.create();
    await machine.addContext('work', contextAt('unix:///work.sock'));
    expect(
      await machine.discover('docker', { DOCKER_HOST: 'unix:///my.sock', DOCKER_CONTEXT: 'work' }),
    ).toMatchObject({ way: 'api', api: { path: '/my.sock' } });
  });

  it('has one address for every way to a socket, also while nobody listens there', async () => {
    const machine = await Machine.create();
    const path = await machine.listen('run/docker.sock');
    await symlink(machine.path('run'), machine.path('link'));
    await symlink(path, machine.path('system-docker.sock'));
    const addressOf = async (env: NodeJS.ProcessEnv) => (await machine.discover('docker', env)).address;
    const ways = [
      {},
      { DOCKER_HOST: `unix://${path}` },
      { DOCKER_HOST: `unix:///${path}` },
      { DOCKER_HOST: `unix://${machine.path('link')}/docker.sock` },
      { DOCKER_HOST: `unix://${machine.path('system-docker.sock')}` },
    ];
    const address = `unix://${await realpath(path)}`;
    for (const env of ways) expect(await addressOf(env)).toBe(address);
    await rm(path);
    for (const env of ways.slice(1)) expect(await addressOf(env)).toBe(address);
  });

  it.each<[string, ApiAddress]>([
    ['tcp://10.0.0.1', { kind: 'tcp', host: '10.0.0.1', port: 2375 }],
    ['tcp://build.example:1234/', { kind: 'tcp', host: 'build.example', port: 1234 }],
    ['tcp://[::1]:1234', { kind: 'tcp', host: '::1', port: 1234 }],
    ['npipe:////./pipe/docker_engine', { kind: 'pipe', path: '\\\\.\\pipe\\docker_engine' }],
  ])('speaks to DOCKER_HOST=%s itself', async (host, api) => {
    const machine = await Machine.create();
    const found = await machine.discover('docker', { DOCKER_HOST: host });
    expect(found).toEqual({ way: 'api', api, address: host, pins: {} });
  });

  it('takes certificates from where the docker command has them', async () => {
    const machine = await Machine.create();
    await machine.addCertificates(machine.configDir, ['ca', 'cert', 'key']);
    await machine.addCertificates(machine.path('certificates'), ['ca']);
    const found = (env: NodeJS.ProcessEnv) =>
      machine.discover('docker', { DOCKER_HOST: 'tcp://far', ...env });
    const [ca, cert, key] = ['ca', 'cert', 'key'].map((name) => Buffer.from(name));
    expect(await found({})).toMatchObject({ api: { port: 2375 } });
    expect(await found({ DOCKER_TLS_VERIFY: '1' })).toMatchObject({
      api: { port: 2376, tls: { ca, cert, key, verify: true } },
    });
    expect(await found({ DOCKER_TLS: '1' })).toMatchObject({ api: { tls: { verify: false } } });
    const elsewhere = { DOCKER_TLS_VERIFY: '1', DOCKER_CERT_PATH: machine.path('certificates') };
    expect(await found(elsewhere)).toMatchObject({ api: { tls: { ca, verify: true } } });
    const none = { DOCKER_TLS_VERIFY: '1', DOCKER_CERT_PATH: machine.path('nowhere') };
    expect(await found(none)).toMatchObject({ api: { port: 2376, tls: { verify: true } } });
  });

  it('takes the certificates of a context, and its word on who need not be checked', async () => {
    const machine = await Machine.create();
    const digest = createHash('sha256').update('far').digest('hex');
    await machine.addContext('far', contextAt('tcp://far:1'));
    const found = () => machine.discover('docker', { DOCKER_CONTEXT: 'far', DOCKER_TLS_VERIFY: '1' });
    expect((await found()) as object).toMatchObject({ api: { kind: 'tcp', host: 'far', port: 1 } });
    expect(await found()).not.toHaveProperty('api.tls');
    await machine.addCertificates(join(machine.configDir, 'contexts/tls', digest, 'docker'), ['ca']);
    expect(await found()).toMatchObject({ api: { tls: { ca: Buffer.from('ca'), verify: true } } });
    const unchecked = { Endpoints: { docker: { Host: 'tcp://far:1', SkipTLSVerify: true } } };
    await machine.addContext('far', unchecked);
    expect(await found()).toMatchObject({ api: { tls: { verify: false } } });
  });

  it("takes the engine's pipe on Windows where nothing is said", async () => {
    const machine = await Machine.create();
    expect(await machine.discover('docker', {}, 'win32')).toMatchObject({
      way: 'api',
      api: { kind: 'pipe', path: '\\\\.\\pipe\\docker_engine' },
    });
  });

  it.each([
    'ssh://me@there',
    'unix://relative',
    'tcp://far:99999',
    'tcp://far/path',
    'tcp://me@far',
    'npipe://nowhere',
  ])('leaves DOCKER_HOST=%s to the command', async (host) => {
    const machine = await Machine.create();
    await machine.listen('system-docker.sock');
    expect(await machine.discover('docker', { DOCKER_HOST: host })).toMatchObject({
      way: 'command',
    });
  });

  it('takes DOCKER_CONTEXT before the current context', async () => {
    const machine = await Machine.create();
    await machine.setCurrentContext('home');
    await machine.addContext('home', contextAt('unix:///home.sock'));
    await machine.addContext('work', contextAt('unix:///work.sock'));
    expect(await machine.discover('docker', { DOCKER_CONTEXT: 'work' })).toMatchObject({
      api: { path: '/work.sock' },
    });
    expect(await machine.discover('docker')).toMatchObject({ api: { path: '/home.sock' } });
  });

  it('looks for contexts in DOCKER_CONFIG', async () => {
    const machine = await Machine.create();
    const configDir = machine.path('elsewhere');
    await machine.setCurrentContext('work', configDir);
    await machine.addContext('work', contextAt('ssh://me@there'), configDir);
    expect(await machine.discover('docker', { DOCKER_CONFIG: configDir })).toMatchObject({
      way: 'command',
    });
  });

  it('takes the system socket, also when the context is `default`', async () => {
    const machine = await Machine.create();
    await machine.setCurrentContext('default');
    await machine.listen('run/docker.sock');
    const socketPath = await machine.listen('system-docker.sock');
    expect(await machine.discover('docker')).toMatchObject({
      way: 'api',
      api: { kind: 'socket', path: socketPath },
    });
  });

  it('takes the rootless socket when there is no system socket', async () => {
    const machine = await Machine.create();
    const socketPath = await machine.listen('run/docker.sock');
    expect(await machine.discover('docker')).toMatchObject({
      way: 'api',
      api: { kind: 'socket', path: socketPath },
    });
  });

  it('leaves everything to the command when no socket is there', async () => {
    const machine = await Machine.create();
    expect(await machine.discover('docker')).toMatchObject({ way: 'command' });
  });

  it('says that a context is not there', async () => {
    const machine = await Machine.create();
    await expect(machine.discover('docker', { DOCKER_CONTEXT: 'gone' })).rejects.toMatchObject({
      code: 'ENGINE_UNREACHABLE',
      what: 'docker context "gone" not found',
    });
  });

  it.each([
    ['no host', '{"Endpoints":{"docker":{}}}', 'names no docker host'],
    ['broken JSON', '{', 'JSON'],
    ['no object', '3', 'no JSON object'],
  ])('says what is wrong with a context of %s', async (_case, meta, why) => {
    const machine = await Machine.create();
    await machine.addContext('odd', meta);
    const failure = machine.discover('docker', { DOCKER_CONTEXT: 'odd' });
    await expect(failure).rejects.toMatchObject({
      code: 'ENGINE_UNREACHABLE',
      why: expect.stringContaining(why),
    });
  });

  it('says that the configuration is broken', async () => {
    const machine = await Machine.create();
    await mkdir(machine.configDir);
    await writeFile(join(machine.configDir, 'config.json'), 'currentContext: work');
    await expect(machine.discover('docker')).rejects.toMatchObject({ code: 'ENGINE_UNREACHABLE' });
  });

  it('passes over a socket that may not be used', async () => {
    const machine = await Machine.create();
    const closed = await machine.listen('system-docker.sock');
    await chmod(closed, 0);
    const rootless = await machine.listen('run/docker.sock');
    // For root every socket may be used.
    const expected = process.getuid?.() === 0 ? closed : rootless;
    expect(await machine.discover('docker')).toMatchObject({ api: { path: expected } });
  });
});

describe('discoverEndpoint for podman', () => {
  it('takes CONTAINER_HOST first', async () => {
    const machine = await Machine.create();
    await machine.listen('run/podman/podman.sock');
    expect(await machine.discover('podman', { CONTAINER_HOST: 'unix:///p.sock' })).toMatchObject({
      api: { path: '/p.sock' },
    });
    expect(await machine.discover('podman', { CONTAINER_HOST: 'ssh://core@there/run/p.sock' })).toMatchObject(
      {
        way: 'command',
      },
    );
  });

  it('takes the rootless socket, then the system socket, then the command', async () => {
    const machine = await Machine.create();
    expect(await machine.discover('podman')).toMatchObject({ way: 'command' });
    const system = await machine.listen('system-podman.sock');
    expect(await machine.discover('podman')).toMatchObject({ api: { path: system } });
    const rootless = await machine.listen('run/podman/podman.sock');
    expect(await machine.discover('podman')).toMatchObject({ api: { path: rootless } });
  });

  it('takes the connection that CONTAINER_CONNECTION names, and is held to it', async () => {
    const machine = await Machine.create();
    await machine.listen('run/podman/podman.sock');
    const listed = [
      { Name: 'there', URI: 'ssh://core@there:22/run/podman.sock', Default: true },
      { Name: 'near', URI: 'unix:///run/near.sock', Default: false },
    ];
    await writeScript(machine.root, 'podman', `echo '${JSON.stringify(listed)}'`);
    const named = (CONTAINER_CONNECTION: string) =>
      machine.discover('podman', { CONTAINER_CONNECTION, PATH: `${machine.root}:/usr/bin:/bin` });
    expect(await named('there')).toEqual({
      way: 'command',
      address: 'ssh://core@there:22/run/podman.sock',
      pins: { CONTAINER_CONNECTION: 'there' },
    });
    expect(await named('near')).toMatchObject({ way: 'api', api: { path: '/run/near.sock' } });
    await expect(named('gone')).rejects.toMatchObject({
      code: 'ENGINE_UNREACHABLE',
      why: 'podman knows no connection of this name',
    });
  });

  it('is not concerned by what is meant for docker', async () => {
    const machine = await Machine.create();
    const env = { DOCKER_HOST: 'unix:///my.sock', DOCKER_CONTEXT: 'gone' };
    expect(await machine.discover('podman', env)).toMatchObject({ way: 'command' });
  });
});
