import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises';
import { createServer, type RequestListener } from 'node:http';
import { join } from 'node:path';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it, onTestFinished } from 'vitest';
import { ApiEngine } from './api-engine.ts';
import { CommandEngine } from './command-engine.ts';
import { openContainer } from './open-engine.ts';

const INSPECTED = { Id: 'a'.repeat(64), Name: '/box', State: { Running: true } };

interface Surroundings {
  env: NodeJS.ProcessEnv;
  /** What the engine was asked for, in order. */
  asked: string[];
}

/** An engine's socket that answers like this, or nobody listens on, beside a command that knows a container. */
async function surroundings(answer?: RequestListener): Promise<Surroundings> {
  const dir = await tempDir();
  const socketPath = join(dir, 's');
  const asked: string[] = [];
  if (answer) {
    const server = createServer((request, response) => {
      asked.push(request.url ?? '');
      answer(request, response);
    });
    server.listen(socketPath);
    await once(server, 'listening');
    onTestFinished(() => {
      server.closeAllConnections();
      server.close();
    });
  }
  const bin = join(dir, 'bin');
  await mkdir(bin);
  const inspected = JSON.stringify([{ ...INSPECTED, Name: '/by-command' }]);
  await writeFile(join(bin, 'docker'), `#!/bin/sh\nprintf '%s' '${inspected}'\n`);
  await chmod(join(bin, 'docker'), 0o755);
  return { env: { PATH: `${bin}:/usr/bin:/bin`, DOCKER_HOST: `unix://${socketPath}` }, asked };
}

describe('openContainer', () => {
  it('asks once where the API knows the container', async () => {
    const { env, asked } = await surroundings((_request, response) => {
      response.end(JSON.stringify(INSPECTED));
    });
    const { engine, info } = await openContainer('docker', 'box', { env });
    expect(engine).toBeInstanceOf(ApiEngine);
    expect(info).toMatchObject({ id: INSPECTED.Id, name: 'box', running: true });
    expect(asked).toEqual(['/containers/box/json']);
  });

  it('believes an API that answers and does not know it', async () => {
    const { env } = await surroundings((request, response) => {
      if (request.url === '/_ping') response.end('OK');
      else response.writeHead(404).end('{"message":"No such container: box"}');
    });
    await expect(openContainer('docker', 'box', { env })).rejects.toMatchObject({
      code: 'TARGET_NOT_FOUND',
      why: 'No such container: box',
    });
  });

  it('uses the command where nothing listens', async () => {
    const { env } = await surroundings();
    const { engine, info } = await openContainer('docker', 'box', { env });
    expect(engine).toBeInstanceOf(CommandEngine);
    expect(info.name).toBe('by-command');
  });

  it('uses the command where the API answers nobody', async () => {
    const { env, asked } = await surroundings((_request, response) => {
      response.writeHead(403).end('{"message":"go away"}');
    });
    const { engine } = await openContainer('docker', 'box', { env });
    expect(engine).toBeInstanceOf(CommandEngine);
    expect(asked).toEqual(['/containers/box/json', '/_ping']);
  });

  it('holds the command to the context that was current', async () => {
    const { env } = await surroundings();
    const { DOCKER_HOST: _host, ...rest } = env;
    const home = await tempDir();
    const config = join(home, '.docker');
    const setContext = async (name: string, host: string) => {
      const meta = join(config, 'contexts/meta', createHash('sha256').update(name).digest('hex'));
      await mkdir(meta, { recursive: true });
      await writeFile(join(meta, 'meta.json'), JSON.stringify({ Endpoints: { docker: { Host: host } } }));
    };
    const setCurrent = (name: string) =>
      writeFile(join(config, 'config.json'), JSON.stringify({ currentContext: name }));
    await setContext('work', 'ssh://me@work');
    await setContext('prod', 'ssh://me@prod');
    await setCurrent('work');
    const docker = join(rest.PATH!.split(':')[0]!, 'docker');
    const inspected = JSON.stringify([INSPECTED]);
    await writeFile(
      docker,
      `#!/bin/sh\necho "$DOCKER_CONTEXT" >> '${home}/contexts'\nprintf '%s' '${inspected}'\n`,
    );
    const { engine, address } = await openContainer('docker', 'box', { env: rest, home });
    expect(address).toBe('ssh://me@work');
    await setCurrent('prod');
    await engine.checkAddress();
    await engine.inspectContainer('box');
    expect(await readFile(`${home}/contexts`, 'utf8')).toBe('work\nwork\n');
    await setContext('work', 'ssh://me@prod');
    await expect(engine.checkAddress()).rejects.toMatchObject({
      why: 'its configuration leads to another engine by now',
    });
  });
});
