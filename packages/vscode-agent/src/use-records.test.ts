import { readdirSync, statSync, writeFileSync } from 'node:fs';
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

it('has a file for each window, which the next one goes on with', async () => {
  const dir = await tempDir();
  const [first, second] = [new UseRecords(dir), new UseRecords(dir)];
  const files = () => readdirSync(join(dir, 'uses')).filter((name) => name.endsWith('.uses'));
  first.forRemote(() => remote).begin(use());
  second.forRemote(() => remote).begin(use());
  expect(files()).toHaveLength(2);
  first.dispose();
  second.dispose();
  const third = new UseRecords(dir);
  third.forRemote(() => remote).begin(use());
  expect(files()).toHaveLength(2);
  expect(third.read()).toHaveLength(3);
  third.dispose();
});

it('takes over the file of a window that was killed', async () => {
  const dir = await tempDir();
  const killed = new UseRecords(dir);
  killed.forRemote(() => remote).begin(use());
  const lock = readdirSync(join(dir, 'uses')).find((name) => name.endsWith('.lock'))!;
  // Beyond the largest PID that Linux gives.
  writeFileSync(join(dir, 'uses', lock), '4194305\n');
  new UseRecords(dir).forRemote(() => remote).begin(use());
  expect(readdirSync(join(dir, 'uses')).filter((name) => name.endsWith('.uses'))).toHaveLength(1);
});
