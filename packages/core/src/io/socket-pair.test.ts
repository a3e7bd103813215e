import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, expect, it } from 'vitest';
import { readExactly, readToEnd } from '../../../../test/support/socket-pair.ts';
import { socketPair } from './socket-pair.ts';

describe('a pair of sockets', () => {
  it('serves a child as its standard input and output', async () => {
    const { near, far } = await socketPair();
    const child = spawn('cat', { stdio: [far, far, 'inherit'] });
    far.destroy();
    near.write('one ');
    expect(String(await readExactly(near, 4))).toBe('one ');
    near.end('two');
    expect(String(await readToEnd(near))).toBe('two');
    if (child.exitCode === null) await once(child, 'exit');
    expect(child.exitCode).toBe(0);
  });
});
