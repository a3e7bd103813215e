import { readFile } from 'node:fs/promises';
import { expect, it } from 'vitest';
import { renderPage } from './page.ts';
import { CELLS, FAULTS, PHASES, PROCESSES } from './table.ts';

it('docs/reliability.md shows the table of the tests: `npm run docs:reliability`', async () => {
  expect(await readFile('docs/reliability.md', 'utf8')).toBe(renderPage());
});

it('has a cell for every process, fault and phase, with an outcome or a reason', () => {
  const count = [PROCESSES, FAULTS, PHASES].reduce((product, axis) => product * Object.keys(axis).length, 1);
  expect(new Set(CELLS.map(({ process, fault, phase }) => `${process} ${fault} ${phase}`)).size).toBe(count);
  for (const { outcome, others, why } of CELLS) {
    expect(outcome === undefined).toBe(why !== undefined);
    expect(outcome === undefined).toBe(others === undefined);
  }
});
