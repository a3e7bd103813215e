import { readdir, readFile } from 'node:fs/promises';
import type { GnupgHome } from './gnupg-home.ts';
import { runOk } from './process.ts';

/** The gpg-agents that run for this home: those that were started with it as their --homedir. */
export async function agentsOf(home: GnupgHome): Promise<number[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const found = await Promise.all(
    pids.map(async (pid) => {
      // A process that is gone by now, or a zombie, has no command line.
      const words: string[] = await readFile(`/proc/${pid}/cmdline`, 'utf8').then(
        (line) => line.split('\0'),
        () => [],
      );
      return words[0]?.endsWith('gpg-agent') && words.includes(home.dir) ? [Number(pid)] : [];
    }),
  );
  return found.flat();
}

/** Ends the home's agent as a crash would, and returns when it is gone; its socket files stay. */
export async function crashAgent(home: GnupgHome): Promise<void> {
  const answer = await runOk('gpg-connect-agent', ['--no-autostart', 'GETINFO pid', '/bye'], {
    env: home.env,
  });
  const pid = Number(/^D (\d+)$/m.exec(answer)?.[1]);
  if (!(await agentsOf(home)).includes(pid)) throw new Error(`${pid} is not this home's agent`);
  process.kill(pid, 'SIGKILL');
  while (!(await hasEnded(pid))) await new Promise((resolve) => setImmediate(resolve));
}

/** Whether a process has closed its files: it loses its command line before. */
async function hasEnded(pid: number): Promise<boolean> {
  const status = await readFile(`/proc/${pid}/status`, 'latin1').catch(() => undefined);
  return status === undefined || /^State:\s+[ZX]/m.test(status);
}
