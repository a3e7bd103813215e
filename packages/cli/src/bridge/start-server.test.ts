import { PassThrough } from 'node:stream';
import { expect, it, vi } from 'vitest';
import type { ExecStream } from '../engine/engine.ts';
import type { Target } from '../targets/target.ts';
import { startServer } from './start-server.ts';

const SOURCE = vi.hoisted(() => 'serve();\n');
// The servers lie beside the built command, and this one is not built.
vi.mock('./server-source.ts', () => ({ serverSource: () => SOURCE }));

const target = { name: 'somewhere' } as Target;

/** A launcher that has found perl, and waits for a server; or one that has printed something else. */
function launcher(printed = 'GPG-BRIDGE 1 perl\n') {
  const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()];
  let killed = false;
  const kill = () => {
    killed = true;
  };
  stdout.write(printed);
  let sent = '';
  stdin.setEncoding('utf8').on('data', (text: string) => {
    sent += text;
  });
  const exec: ExecStream = { stdin, stdout, stderr, exited: new Promise(() => {}), kill };
  return { exec, read: () => sent, killed: () => killed };
}

it('sends the server as soon as the launcher has said what runs it', async () => {
  const { exec, read, killed } = launcher();
  const heartbeat = { tickMs: 200, maxUnanswered: 3, idleTicks: 9 };
  const started = await startServer(target, { exec, heartbeat, log: () => {} });
  expect(started).toMatchObject({ exec, runtime: 'perl' });
  expect(killed()).toBe(false);
  const settings = 'protocol=4\nmax-streams=4096\ntrace=0\ntick-ms=200\nmax-unanswered=3\nidle-ticks=9\n';
  expect(read()).toBe(`${SOURCE.length} ${settings.length}\n${SOURCE}${settings}`);
});

it("leaves what follows the launcher's line to be read", async () => {
  const { exec } = launcher('a banner\nGPG-BRIDGE 1 perl\nframes');
  await startServer(target, { exec, log: () => {} });
  expect(String(exec.stdout.read())).toBe('frames');
});

it.each(['before it was asked, with the launcher ready', 'while it waits for the launcher'])(
  'sends no server to a target that was given up %s',
  async (when) => {
    const waits = when.startsWith('while');
    const { exec, read, killed } = launcher(waits ? 'a banner\n' : undefined);
    const giveUp = new AbortController();
    if (!waits) giveUp.abort();
    const started = startServer(target, { exec, log: () => {}, signal: giveUp.signal });
    if (waits) giveUp.abort();
    await expect(started).rejects.toMatchObject({ code: 'TARGET_NOT_RUNNING' });
    exec.stdout.push('GPG-BRIDGE 1 perl\n');
    expect(killed()).toBe(true);
    expect(read()).toBe('');
  },
);
