import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { bundledScript } from '@gpg-bridge/test-support/bundled-script';
import { PATIENT } from '@gpg-bridge/test-support/patient';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { expect, test } from 'vitest';
import { describeFailure, runProgram } from './run-program.ts';

const node = process.execPath;

test('output, input and status are passed', async () => {
  const script = 'process.stdin.pipe(process.stdout); process.stderr.write("aside"); process.exitCode = 3';
  const result = await runProgram(node, ['-e', script], { input: Buffer.from([0, 10, 255]) });
  expect(result).toMatchObject({ status: 3, stderr: 'aside', stdout: Buffer.from([0, 10, 255]) });
});

test('a program that can not be started rejects', async () => {
  await expect(runProgram('/nowhere/program', [])).rejects.toMatchObject({ code: 'ENOENT' });
});

test('one that prints too much, or never ends, is ended', async () => {
  const chatter = await runProgram(node, ['-e', 'setInterval(() => console.log("x".repeat(9999)), 1)'], {
    maxOutput: 20_000,
  });
  expect(chatter.aborted).toBe('output-limit');
  expect(chatter.stdout.length).toBeLessThanOrEqual(20_000);
  expect(describeFailure(chatter)).toBe('it printed more than expected');

  const sleeper = await runProgram('sleep', ['1000'], { timeoutMs: 50 });
  expect(sleeper).toMatchObject({ aborted: 'timeout', signal: 'SIGKILL' });
  expect(describeFailure(sleeper)).toBe('it did not finish in time');
});

test('a signal ends it and what it started', async () => {
  const giveUp = new AbortController();
  const started = join(await tempDir(), 'started');
  const running = runProgram('sh', ['-c', 'sleep 1000 & echo $!; : >"$0"; wait', started], {
    ownGroup: true,
    signal: giveUp.signal,
  });
  await expect.poll(() => existsSync(started), PATIENT).toBe(true);
  giveUp.abort();
  const result = await running;
  expect(result).toMatchObject({ aborted: 'signal', signal: 'SIGTERM' });
  expect(describeFailure(result)).toBe('it was interrupted');
  const pid = Number(result.stdout.toString());
  await expect.poll(() => isRunning(pid), PATIENT).toBe(false);
  const late = await runProgram('sleep', ['1000'], { signal: giveUp.signal });
  expect(late.aborted).toBe('signal');
});

function isRunning(pid: number): boolean {
  try {
    // A zombie has ended, too: whoever inherits it here may never ask for its status.
    return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'latin1'));
  } catch {
    return false;
  }
}

test('standard error is cut, not refused', async () => {
  const result = await runProgram(node, ['-e', 'process.stderr.write("e".repeat(100000))'], {
    maxStderr: 10,
  });
  expect(result).toMatchObject({ status: 0, stderr: 'e'.repeat(10) });
});

test('a daemon that keeps the pipes open does not keep the caller', async () => {
  const result = await runProgram('sh', ['-c', 'sleep 5 & echo $!']);
  expect(result.status).toBe(0);
  process.kill(Number(result.stdout.toString())); // fails if it had ended already
});

test('a failure is described in one line, without status lines', async () => {
  const script = 'printf "gpg: one\\n[GNUPG:] FAILURE 1\\ngpg: two\\033\\n" >&2; exit 2';
  const failed = await runProgram('sh', ['-c', script]);
  expect(describeFailure(failed)).toBe('it ended with status 2, saying "gpg: one / gpg: two"');
  expect(describeFailure(await runProgram('sh', ['-c', 'kill -9 $$']))).toBe('it was ended by SIGKILL');
});

test('without descriptors left it rejects, and nothing is thrown past it', async () => {
  const script = await bundledScript(`
    import { openSync } from 'node:fs';
    import { runProgram } from '@gpg-bridge/core/process/run-program';
    try {
      for (;;) openSync('/dev/null', 'r');
    } catch {
      await runProgram('true', []).catch((error) => console.log(error.code));
    }
  `);
  const result = await runProgram('sh', ['-c', 'ulimit -n 64; exec "$0" "$1"', node, script]);
  expect(result).toMatchObject({ status: 0, stderr: '', stdout: Buffer.from('EMFILE\n') });
});
