import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { PROGRAM, processesWith } from '@gpg-bridge/test-support/cli';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it } from 'vitest';

/** Runs the demo with a directory of its own for everything; a signal comes after so many lines. */
async function demo(interrupt?: { afterLines: number; signal: NodeJS.Signals }) {
  const TMPDIR = await tempDir();
  const child = spawn(process.execPath, [PROGRAM, 'demo'], {
    env: { ...process.env, TMPDIR },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let stdout = '';
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
    if (interrupt && stdout.split('\n').length > interrupt.afterLines) child.kill(interrupt.signal);
  });
  const [status] = (await once(child, 'close')) as [number | null];
  const left = { files: await readdir(TMPDIR), processes: await processesWith(`TMPDIR=${TMPDIR}\0`) };
  return { status, stdout, stderr, left };
}

const NOTHING = { files: [], processes: [] };

describe('gpg-bridge demo', () => {
  it('signs over both carriers, verifies both, and leaves nothing', async () => {
    const { status, stdout, stderr, left } = await demo();
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    expect(stdout.match(/good signature by [0-9A-F]{40}/g)).toHaveLength(2);
    expect(stdout).toMatch(/Both commits were signed/);
    expect(stdout.match(/2 of a signature's 12 round trips cross, which adds +\d+\.\d ms/g)).toHaveLength(2);
    expect(stdout).not.toMatch(/-\d+(?:\.\d+)? [µm]s/);
    expect(left).toEqual(NOTHING);
  });

  it.each([
    [1, 'SIGINT', 130],
    [2, 'SIGTERM', 143],
    [5, 'SIGINT', 130],
    [6, 'SIGINT', 130],
    [14, 'SIGHUP', 129],
    [15, 'SIGINT', 130],
    [16, 'SIGINT', 130],
  ] as const)('after line %d and %s leaves nothing either', async (afterLines, signal, expected) => {
    const { status, stderr, left } = await demo({ afterLines, signal });
    expect(stderr).toContain('interrupted, cleaning up');
    expect(status).toBe(expected);
    expect(left).toEqual(NOTHING);
  });
});
