import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { RuleBridge } from '@gpg-bridge/test-support/auto';
import { signInside } from '@gpg-bridge/test-support/bridged';
import { Person, PROGRAM } from '@gpg-bridge/test-support/cli';
import { sharedEngine } from '@gpg-bridge/test-support/engine/shared';
import { PATIENT } from '@gpg-bridge/test-support/patient';
import { run } from '@gpg-bridge/test-support/process';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import { startSystemdUser } from '@gpg-bridge/test-support/systemd-user';
import { expect, it, onTestFinished } from 'vitest';

const UNIT = 'gpg-bridge-auto.service';

requireSystem('docker', 'systemd')('auto install', () => {
  it('has systemd bring bridges up, which outlive the service', async () => {
    const engine = await sharedEngine('docker');
    const person = await Person.create({
      env: { ...engine.env, CONTAINER_HOST: 'unix:///nonexistent/sock' },
    });
    const { home, command } = await startSystemdUser();
    /** Runs a program where that systemd is, with the person's agent and state. */
    const inside = async (...words: string[]) => {
      const program = `exec ${command} env GNUPGHOME="$GNUPGHOME" XDG_RUNTIME_DIR=/run/user/0 "$@"`;
      // `command` unsets GNUPGHOME for itself, so it is put in by the shell before.
      return run('sh', ['-c', program, 'sh', ...words], { env: person.env });
    };
    const bridge = (...words: string[]) => inside(process.execPath, PROGRAM, ...words);
    onTestFinished(async () => {
      await bridge('auto', 'uninstall');
      await bridge('down', '--all');
      await inside('gpgconf', '--kill', 'all'); // the sockets of an agent that was started there are there
    });
    const name = `auto-service-${process.pid}`;
    await person.ok('auto', 'add', name, '--trust', '--no-ssh');
    const installed = await bridge('auto', 'install');
    expect(installed).toMatchObject({ status: 0, stderr: '' });
    const unit = join(home, '.config/systemd/user', UNIT);
    expect(installed.stdout.toString()).toContain(unit);
    const systemctl = async (...words: string[]) =>
      (await inside('systemctl', '--user', ...words)).stdout.toString().trim();
    expect(await systemctl('is-active', UNIT)).toBe('active');
    expect(await systemctl('is-enabled', UNIT)).toBe('enabled');
    const running = async () =>
      (await person.json<{ running: { pid: number } | null }>('auto', 'list')).running;
    expect(await running()).not.toBeNull();
    const container = await engine.startContainer({ name, image: 'busybox' });
    onTestFinished(() => container.remove());
    const ready = async () =>
      (await person.json<RuleBridge[]>('status')).filter(({ state }) => state === 'ready');
    await expect.poll(ready, { ...PATIENT, timeout: 60_000 }).toMatchObject([{ target: name, rule: name }]);
    expect(await signInside(container)).toContain('GOODSIG');
    const [before] = await ready();
    const service = await running();
    await systemctl('restart', UNIT);
    await expect.poll(async () => (await running())?.pid ?? service?.pid, PATIENT).not.toBe(service?.pid);
    expect((await ready()).map(({ pid }) => pid)).toEqual([before!.pid]);
    expect(await bridge('auto', 'uninstall')).toMatchObject({ status: 0, stderr: '' });
    expect(existsSync(unit)).toBe(false);
    expect(await running()).toBeNull();
    expect(await systemctl('is-active', UNIT)).not.toBe('active');
    expect((await ready()).map(({ pid }) => pid)).toEqual([before!.pid]);
    expect(await signInside(container)).toContain('GOODSIG');
    expect((await bridge('auto', 'uninstall')).stdout.toString()).toBe('There is no service to remove.\n');
  });
});
