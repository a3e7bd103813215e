import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { bundledScript } from '@gpg-bridge/test-support/bundled-script';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it } from 'vitest';
import { readUseRecord, UseRecordFile } from './use-record-file.ts';

const RECORD_FILE = join(import.meta.dirname, 'use-record-file.ts');
const START = Date.parse('2026-01-05T00:00:00Z');
const HOUR_MS = 3_600_000;
const USES = 3_000;

/**
 * Writes uses an hour apart, each with a key of its own, and opens the record again every now and then, as a daemon that
 * starts does. Prints which of them were recorded.
 */
const WRITER = `
import { UseRecordFile } from '${RECORD_FILE}';
const [path, name, uses, maxBytes] = process.argv.slice(2);
const options = (time) => ({ now: () => time, ...(maxBytes ? { maxBytes: Number(maxBytes) } : {}) });
process.stdout.write('ready\\n');
process.stdin.once('data', () => {
  let record;
  const recorded = [];
  const failures = new Set();
  const open = [];
  for (let use = 0; use < Number(uses); use++) {
    const time = ${START} + use * ${HOUR_MS};
    if (use % 300 === 0) {
      record?.close();
      record = new UseRecordFile(path, 'box', options(time));
    }
    try {
      open.push(record.begin({ time, session: 7, command: 'PKSIGN', key: name + use }));
      recorded.push(name + use);
    } catch (error) {
      failures.add(error.code);
    }
    if (open.length > 3) open.shift().finish('ok', use);
  }
  for (const use of open) use.finish('ok', 1);
  process.stdout.write(JSON.stringify({ recorded, failures: [...failures] }) + '\\n', () => process.exit());
});
`;

interface Written {
  recorded: string[];
  failures: string[];
}

/** Runs writers at the same time, each in a process of its own. */
async function writeTogether(path: string, names: string[], uses: number, maxBytes = ''): Promise<Written[]> {
  const writer = await bundledScript(WRITER);
  const children = names.map((name) =>
    spawn(process.execPath, [writer, path, name, String(uses), String(maxBytes)], {
      stdio: ['pipe', 'pipe', 'inherit'],
    }),
  );
  const printed = children.map(() => '');
  for (const [at, child] of children.entries()) {
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      printed[at] += text;
    });
  }
  const closed = children.map((child) => once(child, 'close'));
  await Promise.all(children.map(({ stdout }) => once(stdout, 'data')));
  for (const child of children) child.stdin.write('go\n');
  await Promise.all(closed);
  return printed.map((text) => JSON.parse(text.slice('ready\n'.length)) as Written);
}

function filesIn(directory: string): string[] {
  return readdirSync(directory).map((name) => join(directory, name));
}

describe('two processes that write one record', () => {
  it('lose no line and tear none while old lines are removed', async () => {
    const directory = await tempDir();
    const path = join(directory, 'x.uses');
    const old = new UseRecordFile(path, 'box');
    for (let day = 0; day < 200; day++) {
      const time = START - (340 - day) * 24 * HOUR_MS;
      old.begin({ time, session: 1, command: 'PKSIGN', key: `old${day}` }).finish('ok', 1);
    }
    old.close();
    const written = await writeTogether(path, ['a', 'b'], USES);
    expect(written.map(({ recorded, failures }) => [recorded.length, failures])).toEqual([
      [USES, []],
      [USES, []],
    ]);
    const lines = readUseRecord(path);
    const recent = lines.filter(({ key = '' }) => !key.startsWith('old'));
    expect(recent.map(({ key }) => key).sort()).toEqual(written.flatMap(({ recorded }) => recorded).sort());
    expect(new Set(recent.map(({ outcome }) => outcome))).toEqual(new Set(['ok']));
    // The last start of a writer was on 2026-04-28: what is older than half a year by then is gone with its month.
    expect(lines.filter(({ time }) => time < '2025-10')).toEqual([]);
    const months = lines.map(({ time }) => time.slice(0, 7));
    expect(months).toEqual([...months].sort());
  });

  it('are both refused when it is full, and have what was recorded before', async () => {
    const directory = await tempDir();
    const path = join(directory, 'x.uses');
    const maxBytes = 60_000;
    const written = await writeTogether(path, ['a', 'b'], 900, String(maxBytes));
    for (const { failures } of written) expect(failures).toEqual(['RECORD_FULL']);
    const usable = readUseRecord(path).filter(({ outcome }) => outcome !== 'refused');
    expect(usable.map(({ key }) => key).sort()).toEqual(written.flatMap(({ recorded }) => recorded).sort());
    const bytes = filesIn(directory).reduce((sum, file) => sum + statSync(file).size, 0);
    // Of two that begin at the same moment both may have written before either sees that it is full.
    expect(bytes).toBeLessThanOrEqual(maxBytes + 2 * 300);
    expect(bytes).toBeGreaterThan(maxBytes - 2 * 300);
  });
});
