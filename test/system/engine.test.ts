import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { join } from 'node:path';
import { buffer, text } from 'node:stream/consumers';
import type {
  Container,
  ContainerEngine,
  ContainerOptions,
} from '@gpg-bridge/test-support/engine/containers';
import { DockerEngine } from '@gpg-bridge/test-support/engine/docker';
import { sharedEngine } from '@gpg-bridge/test-support/engine/shared';
import { SETUP_MS } from '@gpg-bridge/test-support/patient';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { ApiEngine } from '../../packages/cli/src/engine/api-engine.ts';
import { CommandEngine } from '../../packages/cli/src/engine/command-engine.ts';
import type {
  ContainerEvent,
  ContainerEventAction,
  Engine,
  EngineKind,
} from '../../packages/cli/src/engine/engine.ts';
import { openContainer } from '../../packages/cli/src/engine/open-engine.ts';

const ALL_BYTES = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));

const WAYS = {
  api: (real: ContainerEngine) =>
    new ApiEngine(real.address.program, { kind: 'socket', path: real.socketPath }),
  command: (real: ContainerEngine) => new CommandEngine(real.address.program, { env: real.env }),
} as const satisfies Record<string, (real: ContainerEngine) => Engine>;

describe.each<EngineKind>(['docker', 'podman'])('%s', (kind) => {
  describe.each(Object.keys(WAYS) as (keyof typeof WAYS)[])('by %s', (way) => {
    requireSystem(kind)('a real engine', () => {
      let real: ContainerEngine;
      let engine: Engine;
      let container: Container;

      beforeAll(async () => {
        real = await sharedEngine(kind);
        engine = WAYS[way](real);
        container = await real.startContainer({ image: 'plain' });
      }, SETUP_MS);

      afterAll(() => container?.remove());

      async function ownContainer(options: ContainerOptions = {}): Promise<Container> {
        const own = await real.startContainer({ image: 'plain', ...options });
        onTestFinished(() => own.remove());
        return own;
      }

      async function finish(argv: readonly string[], input = Buffer.alloc(0), options = {}) {
        const stream = await engine.exec(container.id, argv, options);
        const output = Promise.all([buffer(stream.stdout), text(stream.stderr)]);
        stream.stdin.end(input);
        const [stdout, stderr] = await output;
        return { stdout, stderr, ...(await stream.exited) };
      }

      async function watch(own: Container, actions: readonly ContainerEventAction[]) {
        const events = await engine.events({ container: own.id, actions });
        onTestFinished(() => void events.destroy());
        return events[Symbol.asyncIterator]() as AsyncIterator<ContainerEvent>;
      }

      it('answers a ping', async () => {
        await engine.ping();
      });

      it('finds a container by name, short id and full id', async () => {
        const own = await ownContainer({ user: 'dev' });
        const expected = { id: own.id, name: own.name, running: true, user: 'dev' };
        for (const name of [own.name, own.id.slice(0, 12), own.id]) {
          expect(await engine.inspectContainer(name)).toEqual(expected);
        }
      });

      it('reads a file, in a stopped container too, and none that is not there', async () => {
        const own = await ownContainer();
        await own.execOk(['sh', '-c', 'seq 60000 > /tmp/numbers']);
        const numbers = Array.from({ length: 60_000 }, (_, index) => `${index + 1}\n`).join('');
        expect(String(await engine.readFile(own.id, '/tmp/numbers'))).toBe(numbers);
        await real.runOk(['kill', own.id]);
        await real.runOk(['wait', own.id]);
        expect(String(await engine.readFile(own.id, '/etc/passwd'))).toMatch(/^dev:[^:]*:1000:/m);
        expect(await engine.readFile(own.id, '/nowhere')).toBeUndefined();
        expect(await engine.readFile(own.id, '/etc')).toBeUndefined();
      });

      it('sees that a container is stopped', async () => {
        const own = await ownContainer();
        await real.runOk(['kill', own.id]);
        await real.runOk(['wait', own.id]);
        expect(await engine.inspectContainer(own.id)).toMatchObject({ running: false });
      });

      it.each(['no-such-container', '--help', '../images', ''])('does not find %j', async (name) => {
        await expect(engine.inspectContainer(name)).rejects.toMatchObject({ code: 'TARGET_NOT_FOUND' });
      });

      it('carries every byte both ways, and the end of the input', async () => {
        const input = Buffer.concat(Array(300).fill(ALL_BYTES));
        expect(await finish(['cat'], input)).toEqual({ stdout: input, stderr: '', status: 0, signal: null });
      });

      it('keeps output and errors apart, and tells the status', async () => {
        expect(await finish(['sh', '-c', 'echo out; echo err >&2; exit 7'])).toMatchObject({
          stdout: Buffer.from('out\n'),
          stderr: 'err\n',
          status: 7,
        });
      });

      it('runs as the user it is given', async () => {
        const done = await finish(['id', '-un'], Buffer.alloc(0), { user: 'dev' });
        expect(done.stdout.toString()).toBe('dev\n');
      });

      it('fails a command that is not there', async () => {
        const { status } = await finish(['no-such-command']);
        expect(status).toBeGreaterThan(0);
      });

      it('answers while the input is still open', async () => {
        const stream = await engine.exec(container.id, ['cat']);
        stream.stderr.resume();
        for (const word of ['one', 'two']) {
          stream.stdin.write(word);
          const [answer] = (await once(stream.stdout, 'data')) as [Buffer];
          expect(answer.toString()).toBe(word);
        }
        stream.stdin.end();
        expect(await stream.exited).toEqual({ status: 0, signal: null });
      });

      it('holds a command back whose output nobody reads, and loses nothing', async () => {
        const size = 24 * 1024 * 1024;
        const stream = await engine.exec(container.id, ['sh', '-c', `head -c ${size} /dev/zero`]);
        stream.stdin.end();
        stream.stderr.resume();
        await once(stream.stdout, 'readable');
        expect(stream.stdout.readableLength).toBeLessThan(1024 * 1024);
        const hash = createHash('sha256');
        for await (const chunk of stream.stdout) {
          hash.update(chunk);
          expect(stream.stdout.readableLength).toBeLessThan(1024 * 1024);
        }
        expect(hash.digest('hex')).toBe(createHash('sha256').update(Buffer.alloc(size)).digest('hex'));
        expect(await stream.exited).toEqual({ status: 0, signal: null });
      });

      it('takes the input away from a command that is killed', async () => {
        const own = await ownContainer();
        const stream = await engine.exec(own.id, ['sh', '-c', 'echo up; cat; touch /tmp/end-of-input']);
        stream.stderr.resume();
        await once(stream.stdout, 'data');
        stream.kill();
        await stream.exited;
        await own.execOk(['sh', '-c', 'until [ -e /tmp/end-of-input ]; do sleep 0.05; done']);
      });

      it('ends the stream when the container is killed', async () => {
        const own = await ownContainer();
        const stream = await engine.exec(own.id, ['sh', '-c', 'echo up; cat']);
        stream.stderr.resume();
        await once(stream.stdout, 'data');
        await real.runOk(['kill', own.id]);
        const [{ status }] = await Promise.all([stream.exited, buffer(stream.stdout)]);
        expect(status).not.toBe(0);
      });

      it('hears of death and start, of this container alone', async () => {
        const own = await ownContainer();
        const other = await ownContainer();
        const events = await watch(own, ['die', 'start']);
        await real.runOk(['kill', other.id]);
        await real.runOk(['kill', own.id]);
        expect((await events.next()).value).toEqual({ action: 'die', id: own.id });
        await real.runOk(['start', own.id]);
        expect((await events.next()).value).toEqual({ action: 'start', id: own.id });
      });

      it('hears of the start of any container', async () => {
        const events = await engine.events({ actions: ['start'] });
        onTestFinished(() => void events.destroy());
        const own = await ownContainer();
        for await (const event of events as AsyncIterable<ContainerEvent>) if (event.id === own.id) break;
      });

      it('hears of removal', async () => {
        const own = await ownContainer();
        const events = await watch(own, ['destroy']);
        await own.remove();
        expect((await events.next()).value).toEqual({ action: 'destroy', id: own.id });
      });

      it('does not start a command in a stopped container', async () => {
        const own = await ownContainer();
        await real.runOk(['kill', own.id]);
        await real.runOk(['wait', own.id]);
        const started = engine.exec(own.id, ['true']);
        if (way === 'api') {
          await expect(started).rejects.toMatchObject({ code: 'TARGET_NOT_RUNNING' });
          return;
        }
        const stream = await started;
        stream.stdout.resume();
        expect(await text(stream.stderr)).toMatch(/not running|state improper/i);
        expect((await stream.exited).status).not.toBe(0);
      });
    });
  });
});

requireSystem('docker')('a Docker engine that goes away', () => {
  it.each(Object.keys(WAYS) as (keyof typeof WAYS)[])('ends events and commands (by %s)', async (way) => {
    const real = await DockerEngine.start();
    onTestFinished(() => real.stop());
    const container = await real.startContainer({ image: 'plain' });
    const engine: Engine = WAYS[way](real);
    const events = await engine.events({ container: container.id, actions: ['pause'] });
    const stream = await engine.exec(container.id, ['sh', '-c', 'echo up; cat']);
    stream.stderr.resume();
    await once(stream.stdout, 'data');
    const ended = Promise.all([once(events.resume(), 'end'), buffer(stream.stdout), stream.exited]);
    await real.stopDaemon();
    const [, , { status }] = await ended;
    expect(status).not.toBe(0);
    await expect(engine.ping()).rejects.toMatchObject({ code: 'ENGINE_UNREACHABLE' });
    await expect(engine.inspectContainer(container.id)).rejects.toMatchObject({ code: 'ENGINE_UNREACHABLE' });
  });
});

requireSystem('docker')('finding the Docker engine', () => {
  let real: ContainerEngine;
  let container: Container;

  beforeAll(async () => {
    real = await sharedEngine('docker');
    container = await real.startContainer({ image: 'plain' });
  }, SETUP_MS);

  afterAll(() => container?.remove());

  const opened = (env: NodeJS.ProcessEnv) => openContainer('docker', container.name, { env });

  it('speaks to the socket that DOCKER_HOST names', async () => {
    const { engine, info } = await opened(real.env);
    expect(engine).toBeInstanceOf(ApiEngine);
    expect(info).toMatchObject({ id: container.id });
  });

  it('speaks to the socket of the context that the docker command made', async () => {
    const { DOCKER_HOST: host, ...others } = real.env;
    const env = { ...others, DOCKER_CONFIG: await tempDir() };
    await real.runOk(['context', 'create', 'mine', '--docker', `host=${host}`], { env });
    const expected = { engine: { address: { path: real.socketPath } } };
    expect(await opened({ ...env, DOCKER_CONTEXT: 'mine' })).toMatchObject(expected);
    await real.runOk(['context', 'use', 'mine'], { env: { ...env, DOCKER_HOST: '' } });
    expect(await opened(env)).toMatchObject(expected);
  });

  it('uses the command when nothing answers at the socket, and reports what that says', async () => {
    const env = { ...real.env, DOCKER_HOST: `unix://${join(await tempDir(), 'none.sock')}` };
    const noSocket = { code: 'ENGINE_UNREACHABLE', why: 'there is no such socket' };
    const byCommand = await opened(env).catch((error: unknown) => error);
    expect(byCommand).toMatchObject({ code: 'ENGINE_UNREACHABLE' });
    expect(byCommand).not.toMatchObject(noSocket);
    const byApi = new ApiEngine('docker', { kind: 'socket', path: env.DOCKER_HOST.replace('unix://', '') });
    await expect(byApi.inspectContainer(container.name)).rejects.toMatchObject(noSocket);
  });

  it('says that the command is missing', async () => {
    const engine = new CommandEngine('docker', { env: { PATH: await tempDir() } });
    await expect(engine.ping()).rejects.toMatchObject({
      code: 'ENGINE_UNREACHABLE',
      why: 'there is no command docker on PATH',
    });
  });
});
