import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { signInside, type Up } from '@gpg-bridge/test-support/bridged';
import { PROGRAM } from '@gpg-bridge/test-support/cli';
import type { Container } from '@gpg-bridge/test-support/engine/containers';
import { DockerEngine } from '@gpg-bridge/test-support/engine/docker';
import { SETUP_MS } from '@gpg-bridge/test-support/patient';
import { runOk } from '@gpg-bridge/test-support/process';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { FREEZING, type Line, type Place, untilNoDaemon } from '../../integration/faults/lines.ts';
import { Stage } from '../../integration/faults/stage.ts';
import { type Cell, cellsOf, type ProcessName } from '../../integration/faults/table.ts';

/** A bridge to a container, whose socket is reached from outside: a client inside would be the engine's own. */
class ContainerLine implements Line {
  path = '';
  readonly #stateDir: string;
  readonly #env: NodeJS.ProcessEnv;

  constructor(
    place: Place,
    private readonly engine: DockerEngine,
    private readonly container: Container,
    { fault }: Cell,
  ) {
    this.#stateDir = join(place.dir, 's');
    const { DOCKER_HOST, DOCKER_CONFIG } = engine.env;
    this.#env = {
      ...place.env,
      DOCKER_HOST,
      DOCKER_CONFIG,
      GPG_BRIDGE_STATE_DIR: this.#stateDir,
      // The server in the container outlives its engine, and is told nothing.
      ...(fault === 'stopped' ? {} : { GPG_BRIDGE_HEARTBEAT: FREEZING }),
    };
  }

  pid(name: ProcessName): number {
    if (name !== 'engine') throw new Error(`this way has no ${name}`);
    return this.engine.pid;
  }

  async up(): Promise<void> {
    await mkdir(this.#stateDir, { recursive: true, mode: 0o700 });
    const held = `--gpg-socket=${this.#env.HELD_SOCKET}`;
    const { sockets } = JSON.parse(await this.#run('up', this.container.name, '--json', held)) as Up;
    this.path = `/proc/${await this.container.pid()}/root${sockets[0]!.path}`;
  }

  async restore({ fault }: Cell): Promise<void> {
    await this.givenUp();
    if (fault === 'killed') {
      await this.engine.startDaemon();
      await this.engine.runOk(['start', this.container.id]);
    }
    await this.up();
  }

  async sign(): Promise<void> {
    expect(await signInside(this.container)).toContain('GOODSIG');
  }

  async end(): Promise<void> {
    await this.#run('down', this.container.name);
    await this.givenUp();
    const left = (await readdir(this.#stateDir)).filter((name) => !/\.(log(\.1)?|uses)$/.test(name));
    expect(left).toEqual([]);
    expect(await this.container.execOk(['ls', '-A', '/root/.gnupg'])).not.toMatch(/^(S\.|\.gb)/m);
    await this.container.remove();
  }

  givenUp(): Promise<void> {
    return untilNoDaemon(this.#stateDir);
  }

  #run(...args: string[]): Promise<string> {
    return runOk(process.execPath, [PROGRAM, ...args], { env: this.#env });
  }
}

requireSystem('docker')('the engine', () => {
  let engine: DockerEngine;
  beforeAll(async () => {
    engine = await DockerEngine.start();
  }, SETUP_MS);
  afterAll(() => engine?.stop());
  // After the hooks above: the scene goes before the engine that its bridges use.
  const stage = new Stage({
    renew: async () => {
      await engine.stop();
      engine = await DockerEngine.start();
    },
  });

  describe.each(cellsOf('engine'))('$process', (cell) => {
    it(`${cell.fault}, ${cell.phase}: ${cell.outcome}`, () =>
      stage.try(cell, async (scene) => {
        const line = new ContainerLine(await scene.place(), engine, await engine.startContainer(), cell);
        await line.up();
        return { line, hold: scene.holdByHolder(cell.phase) };
      }));
  });
});
