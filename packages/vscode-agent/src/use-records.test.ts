import { mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { expect, it } from 'vitest';
import { UseRecords } from './use-records.ts';

const use = (command = 'PKSIGN') => ({ time: Date.now(), session: 's', command, key: 'K' });
const remote = 'dev-container+1234';

it('keeps what each remote used keys for, in files of this user alone', async () => {
  const dir = await tempDir();
  const records = new UseRecords(dir);
  expect(records.read()).toEqual([]);
  let here = remote;
  const record = records.forRemote(() => here);
  record.begin(use()).finish('ok', 3);
  here = 'ssh-remote+other';
  record.begin(use('PKDECRYPT'));
  expect(records.read()).toMatchObject([
    { target: remote, command: 'PKSIGN', key: 'K', outcome: 'ok', durationMs: 3 },
    { target: 'ssh-remote+other', command: 'PKDECRYPT', outcome: 'begun' },
  ]);
  expect(statSync(join(dir, 'uses')).mode & 0o777).toBe(0o700);
  for (const name of readdirSync(join(dir, 'uses'))) {
    expect(statSync(join(dir, 'uses', name)).mode & 0o777).toBe(0o600);
  }
});

it('has the uses of all windows, also after they were closed or killed', async () => {
  const dir = await tempDir();
  const [first, second] = [new UseRecords(dir), new UseRecords(dir)];
  first
    .forRemote(() => remote)
    .begin(use())
    .finish('ok', 1);
  second.forRemote(() => remote).begin(use('PKDECRYPT'));
  first.dispose();
  const third = new UseRecords(dir);
  third.forRemote(() => remote).begin(use('GENKEY'));
  expect(third.read().map(({ command, outcome }) => `${command} ${outcome}`)).toEqual([
    'PKSIGN ok',
    'PKDECRYPT begun',
    'GENKEY begun',
  ]);
  expect(readdirSync(join(dir, 'uses'))).toHaveLength(1);
  second.dispose();
  third.dispose();
});

it('shows what an earlier version recorded, for each window', async () => {
  const dir = await tempDir();
  mkdirSync(join(dir, 'uses'));
  for (const [name, day] of [
    ['0123456789abcdef.1.uses', '02'],
    ['0123456789abcdef.uses', '01'],
  ]) {
    const line = { time: `2026-05-${day}T00:00:00.000Z`, target: remote, command: 'PKSIGN', outcome: 'ok' };
    writeFileSync(join(dir, 'uses', name!), `${JSON.stringify(line)}\n`);
  }
  expect(new UseRecords(dir).read().map(({ time }) => time.slice(0, 10))).toEqual([
    '2026-05-01',
    '2026-05-02',
  ]);
});
