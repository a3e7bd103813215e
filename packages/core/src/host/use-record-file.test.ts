import { appendFileSync, readFileSync, renameSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it } from 'vitest';
import { readUseRecord, UseRecordFile } from './use-record-file.ts';

const NOON = Date.parse('2026-05-06T12:00:00Z');
/** The file of that month. */
const monthOf = (path: string) => path.replace(/uses$/, '2026-05.uses');
const sign = (time = NOON, key = 'K1') => ({ time, session: 7, command: 'PKSIGN', key });

describe('the record of key uses', () => {
  it('has a use before it begins, and how it ended', async () => {
    const path = join(await tempDir(), 'x.uses');
    const record = new UseRecordFile(path, 'box');
    const use = record.begin(sign());
    expect(readUseRecord(path)).toMatchObject([
      { target: 'box', command: 'PKSIGN', key: 'K1', outcome: 'begun' },
    ]);
    use.finish('ok', 12.4);
    expect(readUseRecord(path)).toEqual([
      {
        time: '2026-05-06T12:00:00.000Z',
        target: 'box',
        session: 7,
        command: 'PKSIGN',
        key: 'K1',
        outcome: 'ok',
        durationMs: 12,
      },
    ]);
    expect(statSync(monthOf(path)).mode & 0o777).toBe(0o600);
  });

  it('folds uses of a key beyond sixty a minute into one line with a count', async () => {
    const path = join(await tempDir(), 'x.uses');
    const record = new UseRecordFile(path, 'box');
    for (let use = 0; use < 90_000; use++) record.begin(sign(NOON + (use % 1_000))).finish('ok', 1);
    record.begin(sign(NOON, 'K2')).finish('ok', 1);
    const lines = readUseRecord(path);
    expect(lines).toHaveLength(62);
    expect(lines[60]).toMatchObject({ outcome: 'folded', count: 89_940 });
    expect(lines[61]).toMatchObject({ key: 'K2', outcome: 'ok' });
    record.begin(sign(NOON + 60_000)).finish('cancelled', 1);
    expect(readUseRecord(path).at(-1)).toMatchObject({ outcome: 'cancelled' });
  });

  it('refuses a use that it has no room for, and loses none of the others', async () => {
    const path = join(await tempDir(), 'x.uses');
    const record = new UseRecordFile(path, 'box', { maxBytes: 1_000 });
    const begin = (minute: number) => record.begin(sign(NOON + minute * 60_000)).finish('ok', 1);
    let made = 0;
    expect(() => {
      for (;;) begin(made++);
    }).toThrow(expect.objectContaining({ code: 'RECORD_FULL' }));
    expect(readUseRecord(path)).toHaveLength(made - 1);
    expect(statSync(monthOf(path)).size).toBeLessThanOrEqual(1_000);
    renameSync(monthOf(path), `${path}.away`);
    begin(made);
    expect(readUseRecord(path)).toHaveLength(1);
  });

  it('starts a new file when a person moves the old one away, and completes each line where it began', async () => {
    const path = join(await tempDir(), 'x.uses');
    const record = new UseRecordFile(path, 'box');
    const before = record.begin({ ...sign(), note: 'a key that also signs' });
    renameSync(monthOf(path), `${path}.away`);
    const after = record.begin(sign(NOON, 'K2'));
    before.finish('ok', 1);
    expect(readUseRecord(path)).toMatchObject([{ key: 'K2', outcome: 'begun' }]);
    expect(readFileSync(`${path}.away`, 'utf8')).toMatch(/"key":"K1".*"outcome":"ok"/);
    after.finish('cancelled', 1);
    expect(readUseRecord(path)).toMatchObject([{ key: 'K2', outcome: 'cancelled' }]);
  });

  it('counts uses that are too many in the new file, too, when a person moves the old one away', async () => {
    const path = join(await tempDir(), 'x.uses');
    const record = new UseRecordFile(path, 'box');
    for (let use = 0; use < 70; use++) record.begin(sign()).finish('ok', 1);
    renameSync(monthOf(path), `${path}.away`);
    for (let use = 0; use < 5; use++) record.begin(sign()).finish('ok', 1);
    expect(readUseRecord(path)).toMatchObject([{ outcome: 'folded', count: 5 }]);
    expect(readFileSync(`${path}.away`, 'utf8')).toMatch(/"outcome":"folded",.*"count":10/);
  });

  it('goes on where an earlier bridge ended, and drops what is half a year old', async () => {
    const path = join(await tempDir(), 'x.uses');
    const first = new UseRecordFile(path, 'box');
    first.begin(sign(NOON - 200 * 86_400_000)).finish('ok', 1);
    first.begin(sign(NOON - 100 * 86_400_000)).finish('ok', 1);
    first.close();
    const second = new UseRecordFile(path, 'box', { now: () => NOON });
    second.begin(sign()).finish('ok', 1);
    expect(readUseRecord(path).map(({ time }) => time.slice(0, 10))).toEqual(['2026-01-26', '2026-05-06']);
  });

  it('follows no link, and passes over what is no line', async () => {
    const dir = await tempDir();
    writeFileSync(join(dir, 'precious'), 'text');
    symlinkSync('precious', join(dir, 'x.2026-05.uses'));
    const record = new UseRecordFile(join(dir, 'x.uses'), 'box');
    expect(() => record.begin(sign())).toThrow(expect.objectContaining({ code: 'RECORD_FULL' }));
    expect(readFileSync(join(dir, 'precious'), 'utf8')).toBe('text');
    expect(readUseRecord(join(dir, 'precious'))).toEqual([]);
  });

  it('has the lines of an earlier version, and those behind half a line', async () => {
    const path = join(await tempDir(), 'x.uses');
    writeFileSync(path, '{"time":"2026-04-01T00:00:00.000Z","target":"box","outcome":"ok"}\n');
    const record = new UseRecordFile(path, 'box', { now: () => NOON });
    record.begin(sign()).finish('ok', 1);
    appendFileSync(monthOf(path), '{"time":"2026-05-06T12:00:00.000Z","target":"bo');
    record.begin(sign(NOON, 'K2')).finish('ok', 1);
    expect(readUseRecord(path).map(({ time, key }) => [time.slice(0, 7), key])).toEqual([
      ['2026-04', undefined],
      ['2026-05', 'K1'],
      ['2026-05', 'K2'],
    ]);
  });

  it('completes a use that began in the month before', async () => {
    const path = join(await tempDir(), 'x.uses');
    const record = new UseRecordFile(path, 'box');
    const use = record.begin(sign());
    record.begin(sign(NOON + 31 * 86_400_000)).finish('ok', 1);
    use.finish('cancelled', 1);
    expect(readUseRecord(path).map(({ outcome }) => outcome)).toEqual(['cancelled', 'ok']);
  });
});
