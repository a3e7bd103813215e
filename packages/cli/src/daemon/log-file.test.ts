import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { EVIL, expectHarmless } from '@gpg-bridge/test-support/harmless';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it } from 'vitest';
import { LogFile } from './log-file.ts';

describe('LogFile', () => {
  it('has one JSON object a line, for its owner alone', async () => {
    const path = join(await tempDir(), 'log');
    const log = new LogFile(path);
    log.say('a "line"\nof two', 'warn');
    log.append({ time: 't', session: 1, command: 'PKSIGN', outcome: 'ok', durationMs: 3 });
    const lines = (await readFile(path, 'utf8')).trimEnd().split('\n');
    expect(lines.map((line) => JSON.parse(line))).toMatchObject([
      { level: 'warn', message: 'a "line"\\nof two', time: expect.stringMatching(/^\d{4}-.*Z$/) },
      { session: 1, command: 'PKSIGN', outcome: 'ok', durationMs: 3 },
    ]);
    expect((await stat(path)).mode & 0o777).toBe(0o600);
  });

  it('holds nothing that a terminal would obey, and no message of any length', async () => {
    const path = join(await tempDir(), 'log');
    const log = new LogFile(path);
    log.say(EVIL, 'info');
    log.append({ time: 't', session: 1, command: EVIL, outcome: 'ok', durationMs: 3 });
    log.say('x'.repeat(100_000), 'info');
    const text = await readFile(path, 'utf8');
    expectHarmless(text);
    expect(text.length).toBeLessThan(5_000);
  });

  it('goes on where another left off, and keeps to a size', async () => {
    const path = join(await tempDir(), 'log');
    const line = 'x'.repeat(1024 * 1024);
    for (let round = 0; round < 3; round++) {
      const log = new LogFile(path);
      for (let count = 0; count < 3; count++) log.append({ time: 't', level: 'info', message: line });
    }
    expect((await stat(path)).size).toBeLessThan(5.5 * 1024 * 1024);
    expect((await stat(`${path}.1`)).size).toBeLessThan(5.5 * 1024 * 1024);
  });

  it.runIf(process.platform === 'linux')('says why it can not be written', () => {
    const log = new LogFile('/dev/full');
    expect(log.problem).toBeUndefined();
    log.say('words', 'info');
    expect(log.problem).toMatch(/^can't write \/dev\/full: the disk is full \(ENOSPC.*\)\. Make room there/);
  });

  it('does not let words push out what was asked of the keys', async () => {
    const path = join(await tempDir(), 'log');
    let now = 0;
    const log = new LogFile(path, () => now);
    const signed = { time: 't', session: 1, command: 'PKSIGN', outcome: 'ok', durationMs: 3 };
    log.append(signed);
    for (let count = 0; count < 200_000; count++) log.say('target: noise', 'info');
    log.append({ ...signed, session: 2 });
    now += 1_000;
    log.say('the bridge is over', 'info');
    const lines = (await readFile(path, 'utf8')).trimEnd().split('\n');
    expect(lines.length).toBeLessThan(1_010);
    expect(
      lines.map((line) => JSON.parse(line)).filter(({ message }) => message !== 'target: noise'),
    ).toEqual([
      signed,
      { ...signed, session: 2 },
      { time: expect.anything(), level: 'warn', message: '199000 lines were left out: too many came' },
      { time: expect.anything(), level: 'info', message: 'the bridge is over' },
    ]);
  });

  it('keeps uses of keys among any number of refused commands', async () => {
    const path = join(await tempDir(), 'log');
    const log = new LogFile(path, () => 0);
    const line = (command: string) => ({
      time: 'now',
      session: 1,
      command,
      outcome: 'refused',
      durationMs: 1,
    });
    for (let times = 0; times < 5_000; times++) log.appendLimited(line('JUNK'));
    log.appendLimited(line('PKSIGN'));
    log.appendLimited(line('sign'));
    const commands = (await readFile(path, 'utf8'))
      .trim()
      .split('\n')
      .map((text) => JSON.parse(text).command);
    expect(commands.filter((command) => command !== 'JUNK')).toEqual(['PKSIGN', 'sign']);
    expect(commands).toHaveLength(1_002);
  });

  it('does not mind a disk that takes nothing', async () => {
    const log = new LogFile(join(await tempDir(), 'none', 'log'));
    expect(() => log.say('lost', 'info')).not.toThrow();
  });
});
