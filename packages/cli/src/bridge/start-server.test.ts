import { PassThrough } from 'node:stream';
import { expect, it } from 'vitest';
import type { ExecStream } from '../engine/engine.ts';
import type { Target } from '../targets/target.ts';
import { startServer } from './start-server.ts';

const target = { name: 'somewhere' } as Target;

/** A launcher that has found perl, and waits for a server. */
function launcher() {
  const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()];
  let killed = false;
  const kill = () => {
    killed = true;
  };
  stdout.write('GPG-BRIDGE 1 perl\n');
  const exec: ExecStream = { stdin, stdout, stderr, exited: new Promise(() => {}), kill };
  return { exec, sent: () => stdin.readableLength, killed: () => killed };
}

it.each([
  { when: 'before it was asked, with the launcher ready', abortFirst: true },
  { when: 'while the host looks for its agents', abortFirst: false },
])('sends no server to a target that was given up $when', async ({ abortFirst }) => {
  const { exec, sent, killed } = launcher();
  const giveUp = new AbortController();
  if (abortFirst) giveUp.abort();
  const started = startServer(target, {
    exec,
    async config() {
      giveUp.abort();
      return { gpg: false, ssh: true };
    },
    log: () => {},
    signal: giveUp.signal,
  });
  await expect(started).rejects.toMatchObject({ code: 'TARGET_NOT_RUNNING' });
  expect(killed()).toBe(true);
  expect(sent()).toBe(0);
});
