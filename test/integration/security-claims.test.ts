import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

/** A row of a table of what an attacker can't do: the claim, and the tests that show it. */
const ROW = /^\| (?!can't|---)(.+) \| (`.*) \|$/gm;
/** A file, and the titles of tests in it. */
const SHOWN = /`((?:packages|test)\/[^`]+\.ts)`: ((?:“[^”]+”(?:, )?)+)/g;
const ATTACKERS = [
  'A target',
  'Another user of the target',
  'Another user of your computer',
  'An extension of a VS Code remote',
  'An image',
  'An engine',
];

const text = readFileSync('docs/security.md', 'utf8');
const sections = new Map(
  text
    .split(/^### /m)
    .slice(1)
    .map((section) => [section.split('\n', 1)[0]!, section.split(/^## /m)[0]!]),
);

it('docs/security.md says of every kind of attacker what it can do', () => {
  for (const attacker of ATTACKERS) {
    const [title, section] = [...sections].find(([name]) => name.startsWith(attacker)) ?? [];
    expect(title, attacker).toBeDefined();
    expect(section).toMatch(/^Can: /m);
    expect([...section!.matchAll(ROW)].length).toBeGreaterThan(0);
  }
});

it.each([...sections])('docs/security.md names a test that exists for each claim: %s', (_name, section) => {
  const rows = [...section.matchAll(ROW)];
  // Every line of the table is such a row, but for its head.
  expect(rows).toHaveLength([...section.matchAll(/^\| (?!can't|---)/gm)].length);
  for (const [, claim, shown = ''] of rows) {
    const references = [...shown.matchAll(SHOWN)];
    expect(references.map(([whole]) => whole).join('; '), claim).toBe(shown);
    for (const [, file = '', titles = ''] of references) {
      const source = readFileSync(file, 'utf8');
      for (const [, title = ''] of titles.matchAll(/“([^”]+)”/g)) {
        expect(isTitle(source, title), `${file} has a test “${title}”`).toBe(true);
      }
    }
  }
});

/** Whether a title is the text of a test: a whole string of the source, in whatever quotes. */
function isTitle(source: string, title: string): boolean {
  return ["'", '"', '`'].some((quote) => source.includes(`${quote}${title}${quote}`));
}
