import { readdir, readFile, rmdir, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { run } from '../process.ts';

const OVERLAY_FILE_SYSTEM = 0x794c7630;

/** A control group is busy until the kernel is done with the processes that were killed in it. */
const REMOVE_ATTEMPTS = 40;
const REMOVE_INTERVAL_MS = 50;

const GONE_INTERVAL_MS = 10;

/**
 * Whether an engine can keep its layers in `dir` as overlays. Else every container is a full copy of its
 * image: an overlay can't lie on another one, which is what a container's own root is.
 */
export async function overlayWorks(dir: string): Promise<boolean> {
  const known = /\toverlay$/m.test(await readFile('/proc/filesystems', 'utf8'));
  return known && (await statfs(dir)).type !== OVERLAY_FILE_SYSTEM;
}

/** Unmounts whatever an engine left mounted below `dir`, innermost first. */
export async function unmountBelow(dir: string): Promise<void> {
  const mounts = (await readFile('/proc/self/mounts', 'utf8'))
    .split('\n')
    .map((line) => line.split(' ')[1] ?? '')
    .filter((path) => path.startsWith(`${dir}/`));
  for (const path of mounts.reverse()) await run('umount', ['--lazy', path]);
}

/**
 * Kills the processes of the engine in `dir`, told by a path below it among their arguments. Podman keeps a
 * `conmon` for five minutes after each command that was run over its API.
 */
export async function killProcessesOf(dir: string): Promise<void> {
  const all = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number);
  const commands = await Promise.all(all.map(commandOf));
  await killAll(all.filter((_pid, index) => commands[index]?.includes(`\0${dir}/`)));
}

/** Every process that descends from one. */
export async function descendantsOf(pid: number): Promise<number[]> {
  const children = (await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => ''))
    .split(' ')
    .filter(Boolean)
    .map(Number);
  return [...children, ...(await Promise.all(children.map(descendantsOf))).flat()];
}

/** Kills processes, and waits until each is gone: the kernel takes a moment, and tells only the parent. */
export async function killAll(pids: readonly number[]): Promise<void> {
  for (const pid of pids) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // it has ended meanwhile
    }
  }
  for (const pid of pids) while ((await commandOf(pid)) !== '') await delay(GONE_INTERVAL_MS);
}

/** Arguments with NUL between them; empty once the process has ended, collected by its parent or not. */
async function commandOf(pid: number): Promise<string> {
  return readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
}

/** The control group that holds all containers of the engine in `dir`. */
export function cgroupOf(dir: string): string {
  return dir.replace(/^.*\//, '/');
}

/** Engines leave their empty control groups behind: one tree, or with version 1 one for each controller. */
export async function removeCgroup(cgroup: string): Promise<void> {
  for (const controller of ['', ...(await directoriesIn('/sys/fs/cgroup'))]) {
    await removeEmptyTree(join('/sys/fs/cgroup', controller, cgroup));
  }
}

async function removeEmptyTree(dir: string): Promise<void> {
  for (const child of await directoriesIn(dir)) await removeEmptyTree(join(dir, child));
  for (let attempt = 0; attempt < REMOVE_ATTEMPTS; attempt++) {
    const code = await rmdir(dir).then(
      () => undefined,
      (error: NodeJS.ErrnoException) => error.code,
    );
    if (code !== 'EBUSY') return;
    await delay(REMOVE_INTERVAL_MS);
  }
}

async function directoriesIn(dir: string): Promise<string[]> {
  const entries = await readdir(dir, { withFileTypes: true }).catch(() => []);
  return entries.filter((entry) => entry.isDirectory()).map((entry) => entry.name);
}
