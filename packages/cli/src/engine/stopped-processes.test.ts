import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { describe, expect, it, onTestFinished } from 'vitest';
import { StoppedProcesses } from './stopped-processes.ts';

const stateOf = (pid: number) => /^State:\s+(\S)/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1];

describe('what reads a terminal', () => {
  /** A shell with a terminal of its own that has started others; one has left the terminal, one is stopped. */
  async function processes(): Promise<Record<string, number>> {
    const script = [
      'sleep 1000 & echo other $!',
      "setsid -f sh -c 'echo left $$; exec sleep 1000'",
      'sleep 1000 & kill -STOP $!; echo stopped $!',
      'echo shell $$; wait',
    ].join('\n');
    // util-linux has it on every machine.
    const env = { ...process.env, SHELL: '/bin/sh' };
    const child = spawn('script', ['-qc', script, '/dev/null'], { env, stdio: ['pipe', 'pipe', 'inherit'] });
    let printed = '';
    const found = () =>
      [...printed.matchAll(/(\w+) (\d+)\r?\n/g)].map(([, name, pid]) => [name!, Number(pid)]);
    onTestFinished(() => {
      for (const [, pid] of found()) process.kill(pid as number, 'SIGKILL');
      child.kill('SIGKILL');
    });
    child.stdout.on('data', (text: Buffer) => {
      printed += text;
    });
    while (found().length < 4) await once(child.stdout, 'data');
    return Object.fromEntries(found());
  }

  it('is stopped with all that it has started there, and goes on, except for what was stopped before', async () => {
    const found = await processes();
    const stopped = () => Object.keys(found).filter((name) => stateOf(found[name]!) === 'T');
    await expect.poll(stopped).toEqual(['stopped']);
    const reader = new StoppedProcesses(found.shell!);
    await reader.stop();
    // An agent that was started there has left the terminal, too.
    expect(stopped().sort()).toEqual(['other', 'shell', 'stopped']);
    reader.goOn();
    await expect.poll(stopped).toEqual(['stopped']);
  });
});
