import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { agentsOf } from '@gpg-bridge/test-support/agent-processes';
import { Person, PROGRAM, serverOf } from '@gpg-bridge/test-support/cli';
import { TestClient } from '@gpg-bridge/test-support/client-pair';
import { PATIENT } from '@gpg-bridge/test-support/patient';
import { run, stopProcess } from '@gpg-bridge/test-support/process';
import { describe, expect, it, onTestFinished } from 'vitest';
import { FREEZING } from './lines.ts';
import { PROGRAMS, signal } from './programs.ts';

interface Up {
  pid: number;
}
interface Status extends Up {
  uptimeSeconds: number;
  sessions: { open: number };
  lastOperation: { time: string } | null;
}

/** Long enough to be noticed by whatever looks, and short enough to wait for. */
const ASLEEP_MS = 3_000;
const DAY_MS = 86_400_000;

/** A bridge to a home on this machine. */
async function bridged(person: Person, ...flags: string[]) {
  const target = await person.localHome();
  const name = `local:${target.dir}`;
  const { pid } = await person.json<Up>('up', name, '--runtime=perl', ...flags);
  const sign = async () => {
    const { status, stderr } = await target.gpg(['--no-autostart', '--clear-sign'], { input: 'hello' });
    expect(status, stderr).toBe(0);
  };
  return { target, name, pid, sign, path: join(target.dir, 'S.gpg-agent') };
}

/** Runs the command with so many descriptors, which what it starts has, too. */
function runWithFiles(person: Person, count: number, ...args: string[]) {
  const script = `ulimit -n ${count} && exec "$@"`;
  return run('sh', ['-c', script, 'sh', process.execPath, PROGRAM, ...args], { env: person.env });
}

describe('when', () => {
  it('too many files are open when a bridge is started', async () => {
    const person = await Person.create();
    const target = await person.localHome();
    for (const count of [20, 22, 24, 26, 28]) {
      const { status, stderr } = await runWithFiles(person, count, 'up', `local:${target.dir}`);
      expect(stderr, `with ${count}`).toMatch(/^gpg-bridge: [^\n]*EMFILE[^\n]*ulimit -n[^\n]*\n$/);
      expect(status).not.toBe(0);
    }
    await person.ok('up', `local:${target.dir}`);
  });

  it('more clients come than a bridge may open files for', async () => {
    const person = await Person.create();
    const target = await person.localHome();
    const up = await runWithFiles(person, 64, 'up', `local:${target.dir}`, '--runtime=perl');
    expect(up.stderr).toBe('');
    const path = join(target.dir, 'S.gpg-agent');
    const clients = await Promise.all(Array.from({ length: 100 }, () => TestClient.connect(path)));
    const answered = () => clients.filter(({ text }) => /^OK [^\n]*\n/.test(text)).length;
    await expect.poll(answered, PATIENT).toBeGreaterThan(10);
    for (const { socket } of clients) socket.destroy();
    await expect.poll(async () => (await person.json<Status[]>('status'))[0]?.sessions.open, PATIENT).toBe(0);
    const { status, stderr } = await target.gpg(['--no-autostart', '--clear-sign'], { input: 'hello' });
    expect(status, stderr).toBe(0);
  });

  it('the clock jumps, back and forth', async () => {
    const person = await Person.create();
    person.env.NODE_OPTIONS = `--require=${join(PROGRAMS, 'clock.cjs')}`;
    const { pid, sign, name, path } = await bridged(person);
    const open = await TestClient.connect(path);
    await open.reads('OK ');
    for (const jump of [DAY_MS, -DAY_MS]) {
      const now = Date.now();
      process.kill(pid, 'SIGUSR2');
      const lastTime = async () => {
        await sign();
        const [status] = await person.json<Status[]>('status', name);
        return Math.sign(Date.parse(status!.lastOperation!.time) - now - jump / 2);
      };
      await expect.poll(lastTime, PATIENT).toBe(Math.sign(jump));
      const [status] = await person.json<Status[]>('status');
      expect(status!.uptimeSeconds).toBeGreaterThanOrEqual(0);
      expect(status!.uptimeSeconds).toBeLessThan(3_600);
    }
    open.write('GETINFO version\nBYE\n');
    expect(await open.readsAll()).toMatch(/\nOK closing connection\n$/);
  });

  describe.each([
    ['the host sleeps for a few seconds, and wakes up', 'host', {}],
    ['the target sleeps for a few seconds, and wakes up', 'target', {}],
    [
      'both sleep for long, as a laptop with its containers does, and wake up',
      'both',
      { GPG_BRIDGE_HEARTBEAT: FREEZING },
    ],
  ])('%s', (_name, side, env) => {
    it('what was open goes on', async () => {
      const person = await Person.create();
      Object.assign(person.env, env);
      const { pid, sign, path } = await bridged(person);
      const open = await TestClient.connect(path);
      await open.reads('OK ');
      const sides = { host: [pid, ...(await agentsOf(person.home))], target: [await serverOf(pid)] };
      expect(sides.host).toHaveLength(2);
      const asleep = side === 'both' ? [...sides.target, ...sides.host] : sides[side as 'host' | 'target'];
      const wake = () => {
        for (const one of asleep.splice(0)) signal(one, 'SIGCONT');
      };
      onTestFinished(wake);
      for (const one of asleep) await stopProcess(one);
      const signed = sign();
      open.write('GETINFO version\n');
      await delay(ASLEEP_MS);
      wake();
      await signed;
      open.write('BYE\n');
      expect(await open.readsAll()).toMatch(/^OK [^\n]*\nD 2\.[^\n]*\nOK\nOK closing connection\n$/);
      await sign();
    });
  });

  it('the host sleeps for long, and wakes up', async () => {
    const person = await Person.create();
    person.env.GPG_BRIDGE_HEARTBEAT = FREEZING;
    const { pid, sign, path, name } = await bridged(person, '--restart');
    const open = await TestClient.connect(path);
    await open.reads('OK ');
    onTestFinished(() => signal(pid, 'SIGCONT'));
    await stopProcess(pid);
    expect(await open.readsAll()).toMatch(/\nERR 67108941 No agent running[^\n]*\n$/);
    open.socket.destroy();
    await expect.poll(() => existsSync(path), PATIENT).toBe(false);
    process.kill(pid, 'SIGCONT');
    await expect.poll(async () => (await person.run(['status', name])).status, PATIENT).toBe(0);
    await sign();
  });
});
