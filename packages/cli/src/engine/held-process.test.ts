import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, fstatSync, readFileSync, readSync, writeSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it, onTestFinished } from 'vitest';
import { HeldProcess } from './held-process.ts';

/** A process that has opened something, by a line of Perl, and says a word about it. */
async function processWith(perl: string): Promise<{ child: ChildProcess; word: string; held: HeldProcess }> {
  const child = spawn('perl', ['-e', `$| = 1; $^F = 99; ${perl}; sysread STDIN, $_, 1`], { stdio: 'pipe' });
  onTestFinished(() => void child.kill('SIGKILL'));
  const [said] = (await once(child.stdout!, 'data')) as [Buffer];
  const held = HeldProcess.hold(child.pid!);
  if (!held) throw new Error('the process was not found');
  onTestFinished(() => held.release());
  return { child, word: said.toString().trim(), held };
}

/** Descriptor and inode of what a handle of Perl's has. */
const NAMED = 'print fileno($h), ":", (stat $h)[1], "\\n"';

function parse(word: string) {
  const [descriptor = 0, inode = 0] = word.split(':').map(Number);
  return { descriptor, inode };
}

describe('a pipe of another process', () => {
  it('is written to by the end for that, and does not block', async () => {
    const { word, held, child } = await processWith(
      `pipe my $r, my $h; ${NAMED}; sysread $r, my $got, 9; print $got`,
    );
    const descriptor = held.openPipe(parse(word), 'write');
    onTestFinished(() => closeSync(descriptor));
    expect(writeSync(descriptor, 'some text')).toBe(9);
    expect(String((await once(child.stdout!, 'data'))[0])).toBe('some text');
    const filled = () => {
      for (;;) writeSync(descriptor, Buffer.alloc(65_536));
    };
    expect(filled).toThrow(/EAGAIN/);
  });

  it('is read from by the end for that, and ends with the process that has it', async () => {
    const { word, held, child } = await processWith(`pipe my $h, my $w; syswrite $w, 'early'; ${NAMED}`);
    const descriptor = held.openPipe(parse(word), 'read');
    onTestFinished(() => closeSync(descriptor));
    const bytes = Buffer.alloc(9);
    expect(readSync(descriptor, bytes)).toBe(5);
    expect(bytes.toString('latin1', 0, 5)).toBe('early');
    expect(() => readSync(descriptor, bytes)).toThrow(/EAGAIN/);
    child.kill('SIGKILL');
    await once(child, 'exit');
    expect(readSync(descriptor, bytes)).toBe(0);
  });

  it('is not opened if it is another one than was named, and nothing of it is read', async () => {
    const { word, held, child } = await processWith(
      `pipe my $h, my $w; syswrite $w, 'kept'; $SIG{TERM} = sub { sysread $h, my $got, 9; print $got }; ${NAMED}`,
    );
    const { descriptor, inode } = parse(word);
    expect(() => held.openPipe({ descriptor, inode: inode + 1 }, 'read')).toThrow(`pipe:[${inode}]`);
    child.kill('SIGTERM');
    expect(String((await once(child.stdout!, 'data'))[0])).toBe('kept');
  });

  it.each([
    ['read', 'pipe my $r, my $h'],
    ['write', 'pipe my $h, my $w'],
  ] as const)('is not opened to %s if the process has the other end of it alone', async (direction, perl) => {
    const { word, held } = await processWith(`${perl}; ${NAMED}`);
    expect(() => held.openPipe(parse(word), direction)).toThrow(/is the other end of pipe/);
  });

  it('is not opened if the process has nothing there', async () => {
    const { held } = await processWith('print "ready\\n"');
    expect(() => held.openPipe({ descriptor: 77, inode: 1 }, 'read')).toThrow(/ENOENT/);
  });

  it.each([
    ['a file', 'open my $h, "+>", "$ARGV_DIR/file"'],
    ['a device', 'open my $h, "<", "/dev/zero"'],
    ['a device that it has named and not opened', 'sysopen my $h, "/dev/zero", 010000000'],
    ['a directory', 'opendir my $d, "/"; open my $h, "<&=", fileno $d'],
    ['a socket', 'use Socket; socketpair my $h, my $o, AF_UNIX, SOCK_STREAM, 0'],
    ['a pipe that has a name', 'system "mkfifo", "$ARGV_DIR/fifo"; open my $h, "+<", "$ARGV_DIR/fifo"'],
  ])('is not opened if it is %s', async (_what, open) => {
    const dir = await tempDir();
    const { word, held } = await processWith(`${open.replaceAll('$ARGV_DIR', dir)} or die $!; ${NAMED}`);
    for (const direction of ['read', 'write'] as const) {
      expect(() => held.openPipe(parse(word), direction)).toThrow(/descriptor \d+ is /);
    }
  });
});

describe('a process that is held', () => {
  it('is not another one that has got its number', async () => {
    const { held, child } = await processWith('print "ready\\n"');
    child.kill('SIGKILL');
    await once(child, 'exit');
    // Where that is allowed, the next process gets its number.
    await writeFile('/proc/sys/kernel/ns_last_pid', String(child.pid! - 1)).catch(() => {});
    const next = spawn('sleep', ['60'], { stdio: 'ignore' });
    onTestFinished(() => void next.kill('SIGKILL'));
    expect(() => held.openPipe({ descriptor: 0, inode: 1 }, 'read')).toThrow(/ESRCH|ENOENT/);
  });

  it('is not found where there is none', () => {
    const most = Number(readFileSync('/proc/sys/kernel/pid_max', 'utf8'));
    expect(HeldProcess.hold(most)).toBeUndefined();
  });

  it('leaves no descriptor behind', async () => {
    const { word, held } = await processWith(`pipe my $h, my $w; ${NAMED}`);
    const first = held.openPipe(parse(word), 'read');
    closeSync(first);
    expect(() => held.openPipe({ ...parse(word), inode: 1 }, 'read')).toThrow();
    const second = held.openPipe(parse(word), 'read');
    expect(second).toBe(first);
    expect(fstatSync(second).isFIFO()).toBe(true);
    closeSync(second);
  });
});
