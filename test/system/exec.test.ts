import { createConnection, createServer } from 'node:net';
import { userInfo } from 'node:os';
import { delimiter, join } from 'node:path';
import { personWithContainer } from '@gpg-bridge/test-support/bridged';
import { Person } from '@gpg-bridge/test-support/cli';
import type { ContainerEngine } from '@gpg-bridge/test-support/engine/containers';
import { sharedEngine } from '@gpg-bridge/test-support/engine/shared';
import { interruptCommand, useShell } from '@gpg-bridge/test-support/interactive';
import { SETUP_MS } from '@gpg-bridge/test-support/patient';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import { writeScript } from '@gpg-bridge/test-support/script';
import { startSshAgent } from '@gpg-bridge/test-support/ssh-agent';
import { SSH_HOST, SshServer } from '@gpg-bridge/test-support/sshd';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { Terminal } from '@gpg-bridge/test-support/terminal';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';

/** Signs, reads its input to the end, writes to both outputs, and ends with 42. */
const SCRIPT = 'gpg --clear-sign; ssh-add -l >&2; echo "$PWD" >&2; exit 42';

/** Checks a command in a target that has never seen a bridge. */
async function checkCommand(person: Person, words: readonly string[], directory: string): Promise<void> {
  const agent = await startSshAgent();
  const fingerprint = await agent.fingerprint(await agent.addKey('ada@example.org'));
  person.env.SSH_AUTH_SOCK = agent.socketPath;
  const done = await person.run(['exec', ...words, '--', 'sh', '-c', SCRIPT], { input: 'hello\n' });
  expect(done.stdout.toString()).toMatch(/^-----BEGIN PGP SIGNED[\s\S]*\n-----END PGP SIGNATURE-----\n$/);
  const [said, listed, where, ...rest] = done.stderr.split('\n');
  expect(said).toMatch(/^gpg-bridge: the bridge to .* is up, until `gpg-bridge down .*`$/);
  expect(listed).toContain(fingerprint);
  expect([where, ...rest]).toEqual([directory, '']);
  expect(done.status).toBe(42);
  expect(await person.run(['exec', ...words, 'sh', '-c', 'kill -9 $$'])).toMatchObject({
    status: 137,
    stderr: '',
  });
}

/** An engine's socket on which the first size of a terminal is taken, and goes nowhere; resolves to its path. */
async function forgetFirstSize(socketPath: string): Promise<string> {
  const path = join(await tempDir(), 'engine.sock');
  let hasForgotten = false;
  const relay = createServer((client) => {
    client.on('error', () => {});
    client.once('data', (begun) => {
      if (!hasForgotten && /^POST \S*\/resize\?/.test(begun.toString('latin1'))) {
        hasForgotten = true;
        client.end('HTTP/1.1 201 Created\r\nContent-Length: 0\r\nConnection: close\r\n\r\n');
        return;
      }
      const engine = createConnection(socketPath);
      engine.on('error', () => client.destroy());
      engine.write(begun);
      client.pipe(engine).pipe(client);
    });
  });
  await new Promise<void>((resolve) => relay.listen(path, resolve));
  onTestFinished(() => void relay.close());
  return path;
}

describe.each(['docker', 'podman'] as const)('exec and shell in a container of %s', (kind) => {
  requireSystem(kind, 'tmux')('by its API', () => {
    let engine: ContainerEngine;

    beforeAll(async () => {
      engine = await sharedEngine(kind);
    }, SETUP_MS);

    /** A person without the engine's command. */
    async function withoutCommand() {
      const { person, name } = await personWithContainer(engine, { args: ['--workdir=/srv'] });
      const programs = await tempDir();
      await writeScript(programs, kind, 'echo there is no such command >&2; exit 1');
      person.env.PATH = `${programs}${delimiter}${person.env.PATH}`;
      if (kind === 'podman') person.env.CONTAINER_HOST = `unix://${engine.socketPath}`;
      return { person, name };
    }

    it('works in one go', async () => {
      const { person, name } = await withoutCommand();
      await checkCommand(person, [name], '/srv');
    });

    it('gives a user without a home what --home says', async () => {
      const { person, name } = await withoutCommand();
      const script = 'echo "$(id -u) $HOME $GNUPGHOME" && gpg --clear-sign';
      const words = [name, '--user=4321', '--home=/tmp/4321', '--', 'sh', '-c', script];
      const done = await person.run(['exec', ...words], { input: 'hello\n' });
      expect(done.stdout.toString()).toMatch(/^4321 \/tmp\/4321 \/tmp\/4321\/.gnupg\n-----BEGIN PGP SIGNED/);
      expect(done.status).toBe(0);
    });

    it('has a terminal', async () => {
      const { person, name } = await withoutCommand();
      await useShell(person, name);
      await interruptCommand(person, name);
    });

    it('has the size of the terminal here also if the engine takes it before it has one', async () => {
      const { person, name } = await withoutCommand();
      const forgetful = await forgetFirstSize(engine.socketPath);
      person.env[kind === 'podman' ? 'CONTAINER_HOST' : 'DOCKER_HOST'] = `unix://${forgetful}`;
      await useShell(person, name);
    });

    it('gives the terminal back when it is ended', async () => {
      const { person, name } = await withoutCommand();
      const terminal = await Terminal.of(person);
      await terminal.enter(`gpg-bridge exec ${name} -- sh -c 'echo begun; exec sleep 1000' & fg`, /^begun$/m);
      // What ends it is not typed there.
      const other = await Terminal.of(person);
      await other.enter(`kill $(pgrep -f '[g]pg-bridge.js exec ${name} ')`, /[#$>] *$/);
      // What is typed before the shell has the terminal again is lost.
      await terminal.shows(/^begun$[\s\S]*[#$>] *$/m);
      const screen = await terminal.enter('echo status: $?; stty -a', /^status: 143$[\s\S]*echo/m);
      expect(screen).toMatch(/[^-]icanon[\s\S]*[^-]echo /);
    });
  });
});

requireSystem('docker', 'tmux')('exec and shell by the command of the engine', () => {
  it('work', async () => {
    const engine = await sharedEngine('docker');
    const { person, name } = await personWithContainer(engine);
    // An address that the API is not used for.
    const relay = await tempDir();
    const program = `exec env DOCKER_HOST=${engine.env.DOCKER_HOST} /usr/bin/docker "$@"`;
    await writeScript(relay, 'docker', program);
    person.env.PATH = `${relay}${delimiter}${person.env.PATH}`;
    person.env.DOCKER_HOST = 'tcp://127.0.0.1:1';
    await useShell(person, name);
    await interruptCommand(person, name);
    const whoami = await person.run(['exec', name, '--user', 'dev', '--', 'id', '-un']);
    expect(whoami.stdout.toString()).toBe('dev\n');
    await person.ok('down', name);
    await checkCommand(person, [name], '/');
  });
});

requireSystem('sshd', 'tmux')('exec and shell over ssh', () => {
  async function personAndServer() {
    const server = await SshServer.start({ env: { SHELL: '/bin/bash' } });
    onTestFinished(() => server.stop());
    const person = await Person.create();
    const programs = await tempDir();
    await writeScript(programs, 'ssh', `exec /usr/bin/ssh -F '${server.configPath}' "$@"`);
    person.env.PATH = `${programs}${delimiter}${person.env.PATH}`;
    return person;
  }

  it('works in one go', async () => {
    await checkCommand(await personAndServer(), [`ssh:${SSH_HOST}`], userInfo().homedir);
  });

  it('has a terminal', async () => {
    const person = await personAndServer();
    await useShell(person, `ssh:${SSH_HOST}`);
    await interruptCommand(person, `ssh:${SSH_HOST}`);
  });
});
