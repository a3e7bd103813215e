import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { Daemon } from './engine/daemon.ts';
import { run } from './process.ts';
import { tempDir } from './temp.ts';
import { testedWith, versionOf } from './tested-with.ts';

/** What systemd needs on a machine that was not booted with it; says on its standard error when it is up. */
const SETUP = `
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system
mkdir -p -m 700 /run/user/"$(id -u)"
export XDG_RUNTIME_DIR=/run/user/"$(id -u)"
systemd --user & manager=$!
trap 'kill $manager' TERM
until systemctl --user is-active sockets.target >/dev/null 2>&1; do sleep 0.05; done
echo it is up >&2
wait $manager
wait $manager`;

/** A systemd of a user, with a /run and a HOME of its own; ended with the test. Needs root. */
export async function startSystemdUser(): Promise<{ home: string; command: string }> {
  await testedWith('systemd', () => versionOf('systemctl', '--version'));
  const home = join(await tempDir(), 'home');
  await mkdir(home, { mode: 0o700 });
  const daemon = await Daemon.start({
    command: 'unshare',
    args: ['--mount', 'sh', '-c', SETUP],
    ready: /it is up/,
    env: { ...process.env, HOME: home },
  });
  const command = `nsenter --mount=/proc/${daemon.pid}/ns/mnt env HOME=${home}`;
  onTestFinished(async () => {
    await run('sh', ['-c', `${command} env -u GNUPGHOME gpgconf --kill all`]);
    await daemon.stop();
  });
  return { home, command: `${command} env -u GNUPGHOME` };
}
