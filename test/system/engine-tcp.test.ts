import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { type AddressInfo, connect, createServer } from 'node:net';
import { join } from 'node:path';
import { buffer, text } from 'node:stream/consumers';
import { signInside, type Up } from '@gpg-bridge/test-support/bridged';
import { makeCertificates } from '@gpg-bridge/test-support/certificates';
import { Person } from '@gpg-bridge/test-support/cli';
import type { Container } from '@gpg-bridge/test-support/engine/containers';
import { DockerEngine } from '@gpg-bridge/test-support/engine/docker';
import { SETUP_MS } from '@gpg-bridge/test-support/patient';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import { writeScript } from '@gpg-bridge/test-support/script';
import { makeTempDir, tempDir } from '@gpg-bridge/test-support/temp';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { ApiEngine } from '../../packages/cli/src/engine/api-engine.ts';
import { openContainer } from '../../packages/cli/src/engine/open-engine.ts';

requireSystem('docker', 'openssl')('an engine on TCP', () => {
  let real: DockerEngine;
  let container: Container;
  let certificates: string;
  let tls: NodeJS.ProcessEnv;

  beforeAll(async () => {
    certificates = await makeTempDir();
    await makeCertificates(certificates);
    real = await DockerEngine.start({ certificates });
    container = await real.startContainer({ image: 'git' });
    const { DOCKER_HOST: _local, ...others } = real.env;
    const host = `tcp://127.0.0.1:${real.tlsPort}`;
    tls = { ...others, DOCKER_HOST: host, DOCKER_TLS_VERIFY: '1', DOCKER_CERT_PATH: certificates };
  }, SETUP_MS);

  afterAll(() => real?.stop());

  const opened = (env: NodeJS.ProcessEnv) => openContainer('docker', container.name, { env });

  /** A port without TLS that leads to the engine. */
  async function plainPort(): Promise<number> {
    const relay = createServer({ allowHalfOpen: true }, (client) => {
      const upstream = connect({ path: real.socketPath, allowHalfOpen: true });
      client.pipe(upstream).pipe(client);
      for (const socket of [client, upstream]) socket.on('error', () => {});
    });
    relay.listen(0, '127.0.0.1');
    await once(relay, 'listening');
    onTestFinished(() => void relay.close());
    return (relay.address() as AddressInfo).port;
  }

  /** Somebody whose docker command is of no use. */
  async function withoutCommand(env: NodeJS.ProcessEnv): Promise<Person> {
    const person = await Person.create({ env });
    const programs = await tempDir();
    await writeScript(programs, 'docker', 'echo there is no such command >&2; exit 1');
    person.env.PATH = `${programs}:${person.env.PATH}`;
    return person;
  }

  it('is spoken to with the certificates of DOCKER_CERT_PATH', async () => {
    const { engine, info } = await opened(tls);
    expect(engine).toBeInstanceOf(ApiEngine);
    expect(info).toMatchObject({ id: container.id });
    const stream = await engine.exec(container.id, ['sh', '-c', 'cat; echo done >&2; exit 3']);
    const input = Buffer.alloc(3 * 1024 * 1024, 'every byte ');
    const output = Promise.all([buffer(stream.stdout), text(stream.stderr)]);
    stream.stdin.end(input);
    const [stdout, stderr] = await output;
    expect(stdout.equals(input)).toBe(true);
    expect(stderr).toBe('done\n');
    expect(await stream.exited).toEqual({ status: 3, signal: null });
  });

  it('is spoken to as the context says that the docker command made', async () => {
    const { DOCKER_HOST: host, DOCKER_TLS_VERIFY: _verify, DOCKER_CERT_PATH: _path, ...others } = tls;
    const env = { ...others, DOCKER_CONFIG: await tempDir() };
    const files = ['ca', 'cert', 'key'].map((name) => `${name}=${join(certificates, `${name}.pem`)}`);
    const { stderr, status } = await real.run(
      ['context', 'create', 'far', '--docker', [`host=${host}`, ...files].join(',')],
      { env: { ...env, DOCKER_HOST: '' } },
    );
    expect([status, stderr]).toEqual([0, expect.any(String)]);
    const { engine, info, address } = await opened({ ...env, DOCKER_CONTEXT: 'far' });
    expect(engine).toBeInstanceOf(ApiEngine);
    expect([info.id, address]).toEqual([container.id, host]);
  });

  it('is not believed when another authority signed its certificate, nor believes another client', async () => {
    const others = await tempDir();
    await makeCertificates(others);
    const PATH = await tempDir();
    const refused = await opened({ ...tls, PATH, DOCKER_CERT_PATH: others }).catch((error: unknown) => error);
    expect(refused).toMatchObject({
      code: 'ENGINE_UNREACHABLE',
      why: expect.stringContaining('certificate'),
    });
    const none = join(others, 'none');
    await mkdir(none);
    const unknown = { DOCKER_TLS_VERIFY: '', DOCKER_TLS: '1', DOCKER_CERT_PATH: none };
    await expect(opened({ ...tls, PATH, ...unknown })).rejects.toMatchObject({ code: 'ENGINE_UNREACHABLE' });
  });

  it.each(['with TLS', 'plain'])('gets a bridge, %s, without the docker command', async (how) => {
    const { DOCKER_TLS_VERIFY: _verify, DOCKER_CERT_PATH: _path, ...plain } = tls;
    const env = how === 'plain' ? { ...plain, DOCKER_HOST: `tcp://127.0.0.1:${await plainPort()}` } : tls;
    const person = await withoutCommand(env);
    const up = await person.json<Up>('up', container.name, '--gpg');
    expect(up).toMatchObject({ target: container.name, id: container.id });
    expect(await signInside(container)).toContain('GOODSIG');
    const done = await person.run(['exec', container.name, '--', 'sh', '-c', 'cat; exit 7'], { input: 'x' });
    expect([done.stdout.toString(), done.status]).toEqual(['x', 7]);
    expect(await person.json<Up>('up', container.name)).toMatchObject({ pid: up.pid });
    expect(await person.ok('down', container.name)).toBeTruthy();
    await person.settled();
  });

  it('has its bridge end with the container', async () => {
    const own = await real.startContainer({ image: 'git' });
    const person = await withoutCommand(tls);
    await person.ok('up', own.name);
    await own.remove();
    await person.settled();
    expect(await person.json<unknown[]>('status')).toEqual([]);
  });
});
