import { readFile, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { personWithContainer } from '@gpg-bridge/test-support/bridged';
import type { ContainerEngine } from '@gpg-bridge/test-support/engine/containers';
import { sharedEngine } from '@gpg-bridge/test-support/engine/shared';
import { useShell } from '@gpg-bridge/test-support/interactive';
import { SETUP_MS } from '@gpg-bridge/test-support/patient';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import { writeScript } from '@gpg-bridge/test-support/script';
import { SSH_HOST, SshServer } from '@gpg-bridge/test-support/sshd';
import { tempDir } from '@gpg-bridge/test-support/temp';
import {
  addProtectedKey,
  agentConfFor,
  personWithPassphrase,
  recordTyped,
  signAsked,
  TERMINAL_PINENTRIES,
  type TerminalPinentry,
  WAYS_TO_TYPE,
} from '@gpg-bridge/test-support/terminal-pinentry';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';

const LINES = 'before\nsign\nend\n';

requireSystem(
  'docker',
  'tmux',
  'pinentry',
)('a passphrase for pinentry in the terminal of a container', () => {
  let engine: ContainerEngine;

  beforeAll(async () => {
    engine = await sharedEngine('docker');
  }, SETUP_MS);

  /** A person whose docker is spoken to by its API, or by its command. */
  async function personAndContainer(pinentry: TerminalPinentry, way: 'API' | 'command') {
    const made = await personWithContainer(engine, {}, { key: false, agentConf: agentConfFor(pinentry) });
    const { person } = made;
    await addProtectedKey(person);
    if (way === 'command') {
      const programs = await tempDir();
      const program = `exec env DOCKER_HOST=${engine.env.DOCKER_HOST} /usr/bin/docker "$@"`;
      await writeScript(programs, 'docker', program);
      person.env.PATH = `${programs}${delimiter}${person.env.PATH}`;
      person.env.DOCKER_HOST = 'tcp://127.0.0.1:1';
    }
    return made;
  }

  describe.each(['API', 'command'] as const)('by the %s of the engine', (carrier) => {
    describe.each(TERMINAL_PINENTRIES)('with pinentry-%s', (pinentry) => {
      it.each(WAYS_TO_TYPE)('%s does not reach it', async (way) => {
        const { person, container, name } = await personAndContainer(pinentry, carrier);
        const read = (path: string) => container.execOk(['cat', path]);
        expect(await recordTyped(person, name, way, '/tmp', read)).toBe(LINES);
      });

      it('leaves a shell there as it was', async () => {
        const { person, name } = await personAndContainer(pinentry, carrier);
        await useShell(person, name, signAsked);
      });
    });
  });
});

requireSystem(
  'sshd',
  'tmux',
  'pinentry',
)('a passphrase for pinentry in the terminal of an ssh session', () => {
  it.each([
    ['of its own', ''],
    ['that is shared', 'ControlMaster auto\nControlPersist 60\nControlPath %d/shared\n'],
  ])('over a connection %s does not reach it', async (_connection, settings) => {
    const server = await SshServer.start({ env: { SHELL: '/bin/bash' } });
    onTestFinished(() => server.stop());
    const person = await personWithPassphrase('curses');
    const directory = await tempDir();
    await writeFile(
      join(directory, 'config'),
      `${settings.replace('%d', directory)}Include ${server.configPath}\n`,
    );
    await writeScript(directory, 'ssh', `exec /usr/bin/ssh -F '${join(directory, 'config')}' "$@"`);
    person.env.PATH = `${directory}${delimiter}${person.env.PATH}`;
    const read = (path: string) => readFile(path, 'utf8');
    expect(await recordTyped(person, `ssh:${SSH_HOST}`, 'typed key by key', directory, read)).toBe(LINES);
  });
});
