import { readdirSync, readFileSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Person } from '@gpg-bridge/test-support/cli';
import { runOk } from '@gpg-bridge/test-support/process';
import { startSshAgent } from '@gpg-bridge/test-support/ssh-agent';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { expect, it } from 'vitest';

const PROGRAM = fileURLToPath(new URL('../../packages/test-support/src/hostile-load.mjs', import.meta.url));
const MAX_MIB = 150;
/** 64 connections to each agent, and what a daemon has anyway. */
const MAX_DESCRIPTORS = 200;

const status = (pid: number, field: string) =>
  Number(new RegExp(`^${field}:\\s+(\\d+)`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1]);

it.each([
  ['data', '120 streams that send all they may'],
  ['idle', '1,500 idle streams of each kind'],
  ['pairs', '60,000 OPEN and CLOSE pairs'],
])('a target with %s (%s) takes neither memory nor agents from its host', async (load) => {
  const agent = await startSshAgent();
  await agent.addKey('mine');
  const person = await Person.create();
  person.env.SSH_AUTH_SOCK = agent.socketPath;
  const other = await person.localHome();
  await person.ok('up', `local:${other.dir}`);
  const file = join(await tempDir(), 'on');
  const enter = `${process.execPath} ${PROGRAM} ${load} ${file}`;
  const { pid } = await person.json<{ pid: number }>('up', '--exec', enter, '--keys=none');
  const sessions = async () => {
    const bridges = await person.json<{ pid: number; sessions: { total: number } }[]>('status');
    return bridges.find((bridge) => bridge.pid === pid)!.sessions.total;
  };
  await writeFile(file, '');
  const opened = { data: 60, idle: 3_000, pairs: 4_000 }[load]!;
  await expect.poll(sessions, { timeout: 30_000 }).toBeGreaterThanOrEqual(opened);
  for (let round = 0; round < 5; round++) {
    expect((await person.home.gpg(['--clear-sign'], { input: 'text' })).status).toBe(0);
    expect(await runOk('ssh-add', ['-l'], { env: agent.env })).toContain('mine');
    const inside = { GNUPGHOME: other.dir };
    expect((await person.home.gpg(['--clear-sign'], { input: 'text', env: inside })).status).toBe(0);
    expect(readdirSync(`/proc/${pid}/fd`).length).toBeLessThan(MAX_DESCRIPTORS);
  }
  await rm(file);
  // The most that it ever took.
  expect(status(pid, 'VmHWM') / 1024).toBeLessThan(MAX_MIB);
});
