import { delimiter } from 'node:path';
import { crashAgent } from '@gpg-bridge/test-support/agent-processes';
import { personWithContainer, processesInside, signInside, type Up } from '@gpg-bridge/test-support/bridged';
import { Person, processesWith, untilGone } from '@gpg-bridge/test-support/cli';
import type { ContainerEngine } from '@gpg-bridge/test-support/engine/containers';
import { DockerEngine } from '@gpg-bridge/test-support/engine/docker';
import { sharedEngine } from '@gpg-bridge/test-support/engine/shared';
import { PATIENT, SETUP_MS } from '@gpg-bridge/test-support/patient';
import { untilEnded } from '@gpg-bridge/test-support/process';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import { writeScript } from '@gpg-bridge/test-support/script';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';

const SERVER = 'gpg-bridge*';

requireSystem('docker')('the life of a bridge to a container', () => {
  let docker: ContainerEngine;

  beforeAll(async () => {
    docker = await sharedEngine('docker');
  }, SETUP_MS);

  describe.each([
    ['kill', ['kill']],
    ['stop', ['stop']],
    ['rm -f', ['rm', '-f']],
  ])('docker %s', (what, command) => {
    it('ends it at once, and leaves nothing', async () => {
      const { person, container, name } = await personWithContainer(docker);
      await person.ok('up', name);
      await docker.runOk([...command, container.id]);
      await person.settled();
      expect(await person.json('status')).toEqual([]);
      expect((await person.files()).map((file) => file.replace(/.*\./, ''))).toEqual(['log']);
      const log = await person.run(['log', name]);
      expect(log.status).toBe(what === 'rm -f' ? 1 : 0); // its name is nobody's any more
      if (what === 'rm -f') return;
      expect(log.stdout.toString()).toContain('the bridge is over');
      await docker.runOk(['start', container.id]);
      await person.ok('up', name);
      expect(await signInside(container)).toContain('GOODSIG');
    });
  });

  it('docker restart ends it, and the next `up` works', async () => {
    const { person, container, name } = await personWithContainer(docker);
    const first = await person.json<Up>('up', name);
    await docker.runOk(['restart', container.id]);
    await person.settled();
    const second = await person.json<Up>('up', name);
    expect(second.pid).not.toBe(first.pid);
    expect(await signInside(container)).toContain('GOODSIG');
  });

  it('ends when its process inside is killed, and that leaves nothing in the way', async () => {
    const { person, container, name } = await personWithContainer(docker);
    const up = await person.json<Up>('up', name);
    const [server] = await processesInside(container, SERVER);
    await container.execOk(['sh', '-c', `kill -9 ${server}`]);
    await person.settled();
    expect(await person.json('status')).toEqual([]);
    // Nobody could remove the socket; it is dead, and the next one takes its place.
    await container.execOk(['test', '-S', up.sockets[0]!.path]);
    await person.ok('up', name);
    expect(await signInside(container)).toContain('GOODSIG');
  });

  it('ends inside when the daemon is killed', async () => {
    const { person, container, name } = await personWithContainer(docker);
    const up = await person.json<Up>('up', name);
    process.kill(up.pid, 'SIGKILL');
    await container.execOk(['sh', '-c', `while [ -e ${up.sockets[0]!.path} ]; do :; done`]);
    await container.execOk([
      'sh',
      '-c',
      `while ls -l /proc/[0-9]*/exe 2>/dev/null | grep -q perl; do :; done`,
    ]);
    await person.ok('up', name);
    expect(await signInside(container)).toContain('GOODSIG');
  });

  it('is cleared up by `down` when daemon and container are both gone', async () => {
    const { person, container, name } = await personWithContainer(docker);
    const other = await docker.startContainer();
    onTestFinished(() => other.remove());
    const alive = await person.json<Up>('up', other.name);
    const { pid } = await person.json<Up>('up', name);
    process.kill(pid, 'SIGKILL');
    await untilEnded(pid);
    await docker.runOk(['rm', '-f', container.id]);
    expect(await person.ok('down', name)).toBe(
      `The daemon of the bridge to ${name} had been killed; what it left is cleared up.\n`,
    );
    const left = (await person.files()).filter((file) => !file.endsWith('.log'));
    expect(left.map((file) => file.replace(/.*\./, '')).sort()).toEqual(['pid', 'sock']);
    expect(await person.json('status')).toMatchObject([{ pid: alive.pid, target: other.name }]);
    expect(await person.ok('down', name)).toBe(`There was no bridge to ${name}.\n`);
  });

  it('goes on when the events of the engine are lost, says so, and still sees the end', async () => {
    const { person, container, name } = await personWithContainer(docker);
    // Through the command of the engine, whose stream of events is a process that can be killed.
    const programs = await tempDir();
    const program = `exec env DOCKER_HOST=${docker.env.DOCKER_HOST} /usr/bin/docker "$@"`;
    await writeScript(programs, 'docker', program);
    person.env.PATH = `${programs}${delimiter}${person.env.PATH}`;
    person.env.DOCKER_HOST = 'tcp://127.0.0.1:1';
    const { pid } = await person.json<Up>('up', name);
    const pidFile = await person.file('.pid');
    const log = person.start(['log', name, '-f']);
    const events = async () => {
      const marker = `GPG_BRIDGE_STATE_DIR=${person.stateDir}\0`;
      return (await processesWith(marker)).filter(({ command }) => command.includes('docker events '));
    };
    await expect.poll(events, PATIENT).toHaveLength(1);
    process.kill((await events())[0]!.pid, 'SIGKILL');
    await log.printed(/lost the events of the engine; \S+ still runs, and is watched again/);
    expect(await signInside(container)).toContain('GOODSIG');
    expect(await person.json('status')).toMatchObject([{ pid, state: 'ready', lastError: null }]);
    await docker.runOk(['kill', container.id]);
    await untilGone(pidFile);
  });

  it('goes on through docker pause', async () => {
    const { person, container, name } = await personWithContainer(docker);
    const { pid } = await person.json<Up>('up', name);
    await docker.runOk(['pause', container.id]);
    expect(await person.json('status')).toMatchObject([{ pid, lastError: null }]);
    await docker.runOk(['unpause', container.id]);
    expect(await signInside(container)).toContain('GOODSIG');
    expect(await person.json('status')).toMatchObject([{ pid }]);
  });

  it('can be ended while the container is paused', async () => {
    const { person, container, name } = await personWithContainer(docker);
    const up = await person.json<Up>('up', name);
    await docker.runOk(['pause', container.id]);
    await person.ok('down', name);
    expect(await person.json('status')).toEqual([]);
    await docker.runOk(['unpause', container.id]);
    await container.execOk(['sh', '-c', `while [ -e ${up.sockets[0]!.path} ]; do :; done`]);
  });

  it("goes on when the host's agent is restarted", async () => {
    const { person, container, name } = await personWithContainer(docker);
    const { pid } = await person.json<Up>('up', name);
    expect(await signInside(container)).toContain('GOODSIG');
    await crashAgent(person.home);
    expect(await signInside(container)).toContain('GOODSIG');
    await person.home.killAgent();
    expect(await signInside(container)).toContain('GOODSIG');
    expect(await person.json('status')).toMatchObject([{ pid }]);
    expect(await processesInside(container, 'gpg-agent*')).toEqual([]);
  });

  describe('with --restart', () => {
    it.each([['restart'], ['kill', 'start'], ['stop', 'start']])(
      'is attached again after %s %s',
      async (...commands) => {
        const { person, container, name } = await personWithContainer(docker);
        const { pid } = await person.json<Up>('up', name, '--restart');
        const log = person.start(['log', name, '-f']);
        await log.printed(/bridged /);
        for (const [step, command] of commands.entries()) {
          await docker.runOk([command!, container.id]);
          if (step === 0 && commands.length > 1) {
            await log.printed(/waiting for /);
            expect(await person.ok('status')).toContain('waiting for target');
          }
        }
        await log.printed(/bridged .*bridged /s);
        expect(await signInside(container)).toContain('GOODSIG');
        expect(await person.json('status')).toMatchObject([{ pid, sessions: { open: 0 } }]);
      },
    );

    it('is attached again after its process inside was killed', async () => {
      const { person, container, name } = await personWithContainer(docker);
      await person.ok('up', name, '--restart');
      const log = person.start(['log', name, '-f']);
      await log.printed(/bridged /);
      const [server] = await processesInside(container, SERVER);
      await container.execOk(['sh', '-c', `kill -9 ${server}`]);
      await log.printed(/bridged .*bridged /s);
      expect(await signInside(container)).toContain('GOODSIG');
    });

    it('ends when the container is removed that was named by its ID', async () => {
      const { person, container } = await personWithContainer(docker);
      await person.ok('up', container.id, '--restart');
      await docker.runOk(['rm', '-f', container.id]);
      await person.settled();
      expect(await person.json('status')).toEqual([]);
    });

    it('can be ended while it waits', async () => {
      const { person, container, name } = await personWithContainer(docker);
      await person.ok('up', name, '--restart');
      const log = person.start(['log', name, '-f']);
      await docker.runOk(['kill', container.id]);
      await log.printed(/waiting for /);
      expect(await person.ok('down', name)).toContain('is down');
      expect(await person.json('status')).toEqual([]);
    });
  });

  it('ends when the engine does', { timeout: 300_000 }, async () => {
    const own = await DockerEngine.start();
    onTestFinished(() => own.stop());
    const container = await own.startContainer({ image: 'plain' });
    const person = await Person.create({ env: own.env });
    const up = await person.json<Up>('up', container.name);
    expect(up.id).toBe(container.id);
    await own.stopDaemon();
    await person.settled();
    expect(await person.json('status')).toEqual([]);
    const done = await person.run(['up', container.name]);
    expect(done.status).toBe(3);
    expect(done.stderr).toMatch(/^gpg-bridge: [^\n]+\n$/);
  });
});
