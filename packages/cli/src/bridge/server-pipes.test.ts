import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { PassThrough } from 'node:stream';
import { HostMuxer } from '@gpg-bridge/core/mux/host-muxer';
import { launcherCommand, type Runtime } from '@gpg-bridge/socket-server';
import { requireRuntime } from '@gpg-bridge/test-support/requirements';
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import type { ExecStream, ExitInfo } from '../engine/engine.ts';
import { HeldProcess } from '../engine/held-process.ts';
import type { Target } from '../targets/target.ts';
import { Bridge } from './bridge.ts';
import { Journal } from './journal.ts';
import { serverSource } from './server-source.ts';
import { startServer } from './start-server.ts';

const SERVERS = new URL('../../dist/servers/', import.meta.url);
const FILES = { perl: 'server.pl', python: 'server.py', node: 'server.cjs' };
vi.mock('./server-source.ts', () => ({
  serverSource: vi.fn((runtime: keyof typeof FILES) => readFileSync(new URL(FILES[runtime], SERVERS))),
}));

const target = { name: 'somewhere' } as Target;
const log: string[] = [];

afterEach(() => {
  log.length = 0;
  vi.unstubAllEnvs();
});

interface Launched extends ExecStream {
  child: ChildProcessWithoutNullStreams;
  /** How often somebody asked for its process. */
  asked: number;
}

/** A command on this machine, behind streams that stand for an engine's. */
function launch(
  [program = '', ...args]: readonly string[],
  hold: (pid: number) => HeldProcess | undefined = (pid) => HeldProcess.hold(pid),
): Launched {
  const child = spawn(program, args, { stdio: 'pipe', env: { ...process.env, LC_ALL: 'C' } });
  onTestFinished(() => void child.kill('SIGKILL'));
  child.stdin.on('error', () => {});
  const stdout = child.stdout.pipe(new PassThrough());
  const launched: Launched = {
    child,
    stdin: child.stdin,
    stdout,
    stderr: child.stderr,
    exited: once(child, 'close').then(([status, signal]) => ({ status, signal }) as ExitInfo),
    kill: () => void child.stdin.destroy(),
    asked: 0,
    process: async () => {
      launched.asked += 1;
      return hold(child.pid!);
    },
  };
  return launched;
}

/** Starts a server with a command's streams, and talks to it. */
async function start(launched: Launched, runtime: Runtime) {
  const server = await startServer(target, { exec: launched, runtime, log: (text) => log.push(text) });
  const muxer = new HostMuxer({ input: server.exec.stdout, output: server.exec.stdin });
  onTestFinished(() => muxer.close());
  await once(muxer, 'ready');
  return { ...server, muxer, ...launched };
}

/** What a process has open, by its descriptors. */
function descriptorsOf(pid: number): Map<number, string> {
  const dir = `/proc/${pid}/fd`;
  return new Map(readdirSync(dir).map((name) => [Number(name), readlinkSync(`${dir}/${name}`)]));
}

/** Has the server run a program; returns what that printed. */
async function run(muxer: HostMuxer, ...argv: string[]): Promise<string> {
  const [word, , stdout] = await muxer.call(['run', '20', ...argv]);
  expect(String(word)).toBe('ok');
  return String(stdout);
}

const LIST = ['sh', '-c', 'ls -l /proc/self/fd | grep -c -- "->"'];

describe.each(['perl', 'python'] as const)('a server in %s', (runtime) => {
  requireRuntime(runtime)('that offers pipes', () => {
    it('goes on by them, and its end is told as before', async () => {
      const launched = launch(launcherCommand(runtime));
      await once(launched.child.stdout, 'data'); // it has become the launcher by then
      const before = descriptorsOf(launched.child.pid!);
      const { exec, muxer, exited, child } = await start(launched, runtime);
      expect(exec === launched).toBe(false);
      const after = descriptorsOf(child.pid!);
      for (const descriptor of [0, 1]) {
        expect(after.get(descriptor)).toMatch(/^pipe:\[\d+\]$/);
        expect(after.get(descriptor)).not.toBe(before.get(descriptor));
        // Whoever started it still sees its end by the old ones.
        expect([...after.values()]).toContain(before.get(descriptor));
      }
      // No end that the host has is left open there: each of the two stands there once.
      for (const pipe of [after.get(0), after.get(1)]) {
        expect([...after.values()].filter((name) => name === pipe)).toHaveLength(1);
      }
      muxer.close();
      expect(await exited).toEqual({ status: 0, signal: null });
    });

    it('carries much more by them than a pipe holds, both ways', async () => {
      const { muxer } = await start(launch(launcherCommand(runtime)), runtime);
      const [sent] = [Buffer.alloc(3_000_000, 'every byte counts\n')];
      await muxer.sendInput(sent);
      expect(Number(await run(muxer, 'wc', '-c'))).toBe(sent.length);
      const zeros = await run(muxer, 'head', '-c', '262144', '/dev/zero');
      expect(zeros).toBe('\0'.repeat(262_144));
    });

    it('leaves them to none of the programs that it runs', async () => {
      const { muxer } = await start(launch(launcherCommand(runtime)), runtime);
      const without = await start(
        launch(launcherCommand(runtime), () => undefined),
        runtime,
      );
      expect(await run(muxer, ...LIST)).toBe(await run(without.muxer, ...LIST));
    });

    it('goes on as it began where its process is not to be had, with nothing left open', async () => {
      const launched = launch(launcherCommand(runtime), () => undefined);
      const { exec, muxer, exited, child } = await start(launched, runtime);
      expect(exec === launched).toBe(true);
      const { asked, ...unasked } = launch(launcherCommand(runtime));
      vi.stubEnv('GPG_BRIDGE_PIPES', 'no');
      const other = await start(unasked as Launched, runtime);
      expect(descriptorsOf(child.pid!).size).toBe(descriptorsOf(other.child.pid!).size);
      muxer.close();
      expect(await exited).toEqual({ status: 0, signal: null });
    });

    it('goes on as it began where its process is said to be another one, which loses nothing', async () => {
      const pipe = spawn('perl', ['-e', 'pipe my $r, my $w; syswrite $w, "kept"; print 1; sleep 99'], {
        stdio: ['ignore', 'pipe', 'ignore'],
      });
      onTestFinished(() => void pipe.kill('SIGKILL'));
      const launched = launch(launcherCommand(runtime), () => HeldProcess.hold(pipe.pid!));
      const { exec, muxer } = await start(launched, runtime);
      expect(exec === launched).toBe(true);
      expect(log.join()).toMatch(/pipes can't be opened/);
      expect(await run(muxer, 'echo', 'served')).toBe('served\n');
    });

    it('ends when the host is gone', async () => {
      const { exec, exited } = await start(launch(launcherCommand(runtime)), runtime);
      exec.stdin.destroy();
      exec.stdout.destroy();
      expect(await exited).toEqual({ status: 0, signal: null });
    });

    it('ends when the host is gone before it has answered', async () => {
      const launched = launch(launcherCommand(runtime));
      const giveUp = new AbortController();
      const printed = once(launched.child.stdout, 'data');
      launched.process = () => new Promise(() => {});
      const started = startServer(target, { exec: launched, runtime, log: () => {}, signal: giveUp.signal });
      await printed;
      giveUp.abort();
      await expect(started).rejects.toMatchObject({ code: 'TARGET_NOT_RUNNING' });
      expect(await launched.exited).toEqual({ status: 0, signal: null });
    });

    it('is seen to end when it is killed', async () => {
      const { muxer, child } = await start(launch(launcherCommand(runtime)), runtime);
      const closed = once(muxer, 'close');
      child.kill('SIGKILL');
      expect((await closed)[0]).toMatchObject({ code: 'TARGET_CLOSED' });
    });

    it('counts as gone when its engine says so, whatever else keeps the pipes open', async () => {
      const launched = launch(launcherCommand(runtime));
      const { muxer, exited } = await start(launched, runtime);
      const closed = once(muxer, 'close');
      (launched.stdout as PassThrough).end();
      expect((await closed)[0]).toMatchObject({ code: 'TARGET_CLOSED' });
      expect(await exited).toEqual({ status: 0, signal: null });
    });
  });
});

describe('a server whose host', () => {
  it('is not told which process it is goes on as it began', async () => {
    const launched = launch(launcherCommand('perl'));
    launched.process = () => new Promise(() => {});
    const { exec, muxer } = await start(launched, 'perl');
    expect(exec === launched).toBe(true);
    expect(await run(muxer, 'echo', 'served')).toBe('served\n');
  });

  it('can not be sent is not looked for', async () => {
    const launched = launch(launcherCommand('perl'));
    vi.mocked(serverSource).mockImplementationOnce(() => {
      throw new Error('there is no such file');
    });
    await expect(startServer(target, { exec: launched, log: () => {} })).rejects.toThrow('no such file');
    expect(launched.asked).toBe(0);
  });

  it('hears of its end by the pipes first waits for nothing more', async () => {
    const { exec, muxer, exited } = await start(launch(launcherCommand('perl')), 'perl');
    muxer.close();
    await once(exec.stdout, 'close');
    const timers = vi.spyOn(globalThis, 'setTimeout');
    await exited;
    expect(timers.mock.calls.filter(([, ms]) => ms === 500)).toEqual([]);
    timers.mockRestore();
  });

  it('has its last words told, which come by the longer way', async () => {
    const dying =
      'read STDIN, my $answer, 1; close $_ for $a, $d; select undef, undef, undef, .1; print STDERR "no such thing here\\n"; exit 1';
    const pipes = 'pipe our $a, our $b; pipe our $c, our $d; syswrite $d, "$token\\n"';
    const launched = launch(pretender(`${pipes}; ${OFFER} $b, $c; ${dying}`));
    const parts = { target, launched, agents: {}, journal: new Journal(() => {}), log: () => {} };
    await expect(Bridge.start(parts)).rejects.toMatchObject({
      code: 'TARGET_CLOSED',
      why: 'no such thing here',
    });
  });
});

describe('no pipes are asked for', () => {
  it.each(['perl', 'node'] as const)('where they are not wanted or not made: %s', async (runtime) => {
    if (runtime === 'perl') vi.stubEnv('GPG_BRIDGE_PIPES', 'no');
    const launched = launch(launcherCommand(runtime));
    const { exec, muxer } = await start(launched, runtime);
    expect(exec === launched).toBe(true);
    expect(launched.asked).toBe(0);
    expect(await run(muxer, 'echo', 'served')).toBe('served\n');
  });
});

/** A command that says it runs Perl, takes what it is sent, and then does as this says. */
function pretender(perl: string): string[] {
  const taking =
    'my ($s, $n) = split / /, <STDIN>; read STDIN, my $all, $s + $n; my ($token) = $all =~ /^pipes=(\\d+)$/m';
  return ['perl', '-e', `$| = 1; $^F = 99; print "GPG-BRIDGE 1 perl\\n"; ${taking}; ${perl}; sleep 99`];
}

const OFFER = 'printf "PIPES %s %s\\n", map { fileno($_) . ":" . (stat $_)[1] }';

describe('a target that is not what it says', () => {
  it.each([
    [
      'a pipe that somebody else filled',
      `pipe my $a, my $b; pipe my $c, my $d; syswrite $d, "0\\n"; ${OFFER} $b, $c`,
    ],
    ['an empty pipe', `pipe my $a, my $b; pipe my $c, my $d; ${OFFER} $b, $c`],
    ['a file', `open my $b, '+>', '/tmp/'.$$; unlink '/tmp/'.$$; ${OFFER} $b, $b`],
    ['nothing', 'print "PIPES 70:1 71:2\\n"'],
  ])('is told that %s will not do', async (_what, perl) => {
    const launched = launch(pretender(`${perl}; read STDIN, my $answer, 1; syswrite STDOUT, "<$answer>"`));
    const { exec } = await startServer(target, { exec: launched, log: (text) => log.push(text) });
    expect(exec === launched).toBe(true);
    expect(String((await once(launched.stdout, 'data'))[0])).toBe('<n>');
    expect(log.join()).toMatch(/pipes can't be opened/);
  });

  it.each(['PIPES 1:1\\n', 'something else\\n', `${'P'.repeat(64)}`])(
    'is left to say %s where frames should be',
    async (words) => {
      const launched = launch(pretender(`print "${words}"`));
      const { exec } = await startServer(target, { exec: launched, log: () => {} });
      expect(exec === launched).toBe(true);
      expect(String(launched.stdout.read())).toBe(words.replace('\\n', '\n'));
    },
  );

  it('is not joined with by pipes that it mixes up, but by what comes through them', async () => {
    // The host reads what it writes itself, which is no frame that a target sends.
    const loop = `pipe my $r, my $w; syswrite $w, "$token\\n"; ${OFFER} $w, $r`;
    const launched = launch(pretender(loop));
    const { exec } = await startServer(target, { exec: launched, log: () => {} });
    expect(exec === launched).toBe(false);
    const muxer = new HostMuxer({ input: exec.stdout, output: exec.stdin });
    const closed = once(muxer, 'close');
    muxer.call(['stat', '/']).catch(() => {});
    expect((await closed)[0]).toMatchObject({ code: 'NOT_A_BRIDGE' });
    exec.kill();
  });
});
