import { spawn } from 'node:child_process';
import { once } from 'node:events';

/** Waits for an exclusive lock that the operating system lets go of even if this process is killed. */
export async function lock(path: string): Promise<() => Promise<void>> {
  const holder = spawn('flock', [path, 'sh', '-c', 'echo locked; exec cat'], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  await once(holder.stdout, 'data');
  return async () => {
    const exited = once(holder, 'exit');
    holder.stdin.end();
    await exited;
  };
}
