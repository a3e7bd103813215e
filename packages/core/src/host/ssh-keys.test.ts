import { readFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { runOk } from '@gpg-bridge/test-support/process';
import { startSshAgent } from '@gpg-bridge/test-support/ssh-agent';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { expect, it, onTestFinished } from 'vitest';
import { HostSshAgent } from './ssh-agent.ts';
import { resolveSshKeys } from './ssh-keys.ts';

const agentAt = (SSH_AUTH_SOCK: string) => new HostSshAgent({ env: { SSH_AUTH_SOCK } });

it('finds a key by every name that it has', async () => {
  const { addKey, fingerprint, socketPath } = await startSshAgent();
  const file = await addKey('work');
  await addKey('home');
  const agent = agentAt(socketPath);
  const print = await fingerprint(file);
  const md5 = (await runOk('ssh-keygen', ['-E', 'md5', '-lf', `${file}.pub`])).split(' ')[1]!;
  const [, base64 = ''] = (await readFile(`${file}.pub`, 'utf8')).split(' ');
  for (const name of [
    print,
    `${print}=`,
    print.slice(7),
    md5,
    md5.slice(4),
    md5.slice(4).toUpperCase(),
    base64,
  ]) {
    expect(await resolveSshKeys(agent, [name]), name).toEqual([print]);
  }
  expect(await resolveSshKeys(agent, ['home', print, print])).toEqual(['home', print]);
  expect(await resolveSshKeys(agent, [])).toEqual([]);
  await expect(resolveSshKeys(agent, [print, 'wrok'])).rejects.toMatchObject({
    code: 'SSH_KEY_UNKNOWN',
    what: "can't offer the SSH key wrok",
    fix: expect.stringContaining(`${print} (work), `),
  });
});

it('says that there are none, and that an agent does not answer', async () => {
  const { socketPath } = await startSshAgent();
  await expect(resolveSshKeys(agentAt(socketPath), ['a'])).rejects.toMatchObject({
    fix: 'It has none at all: add one with `ssh-add`.',
  });
  const path = join(await tempDir(), 's');
  const server = createServer((socket) => socket.destroy()).listen(path);
  onTestFinished(() => void server.close());
  await expect(resolveSshKeys(agentAt(path), ['a'])).rejects.toMatchObject({
    what: "can't list the ssh-agent's keys",
  });
});
