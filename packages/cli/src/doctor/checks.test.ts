import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { CHECKS } from './checks.ts';

describe('the checks', () => {
  it('are all in docs/doctor.md, and no others are', () => {
    const page = readFileSync(new URL('../../../../docs/doctor.md', import.meta.url), 'utf8');
    const rows = page.split('\n').filter((line) => line.startsWith('| `'));
    const listed = rows.flatMap((row) => [...row.split('|')[1]!.matchAll(/`([^`]+)`/g)].map(([, id]) => id));
    expect(listed.sort()).toEqual(
      [...CHECKS.map(({ id }) => id), 'bridge:TARGET', 'grant:TARGET', 'sign'].sort(),
    );
    expect(new Set(CHECKS.map(({ id }) => id)).size).toBe(CHECKS.length);
  });
});
