import { readFile } from 'node:fs/promises';
import { PARTS, type Part } from '@gpg-bridge/test-support/tested-with';
import { expect, it } from 'vitest';
import { differences, readNotes, renderPage, type TestedParts } from './page.ts';

const page = await readFile('docs/platforms.md', 'utf8');
const tested = JSON.parse(await readFile('docs/platforms.json', 'utf8')) as TestedParts;

it('docs/platforms.md is made of docs/platforms.json: `npm run docs:platforms`', () => {
  expect(page).toBe(renderPage(tested));
});

it('names every part that tests can note', () => {
  expect(Object.keys(tested).sort()).toEqual(Object.keys(PARTS).sort());
});

/** Systems and programs that a reader may expect it to work with, and other words for them on the page. */
const PLATFORMS: Readonly<Record<string, RegExp>> = {
  macOS: /macOS/,
  Windows: /Windows/,
  WSL: /`wsl:`/,
  Alpine: /Alpine/,
  Fedora: /Fedora/,
  'Docker Desktop': /Docker Desktop/,
  'podman machine': /podman machine/,
  Podman: /Podman/,
  Kubernetes: /Kubernetes/,
  'VS Code': /VS Code/,
  arm64: /arm64|aarch64/,
  'smart card': /smart cards/,
};

it('says of every platform that README.md names whether it was run', async () => {
  const readme = await readFile('README.md', 'utf8');
  const named = Object.keys(PLATFORMS).filter((name) => readme.toLowerCase().includes(name.toLowerCase()));
  expect(named.length).toBeGreaterThan(3);
  expect(named.filter((name) => !PLATFORMS[name]!.test(page))).toEqual([]);
});

it('knows which parts of a run are missing, and which are new', () => {
  const met = readNotes(
    '{"part":"docker","version":"26.1"}\n{"part":"docker","version":"9.5"}\n{"part":"docker","version":"26.1"}\n',
  );
  expect(met).toEqual({ docker: ['9.5', '26.1'] });
  expect(differences({ docker: ['1.0'] }, met)).toEqual([]);
  expect(differences({ podman: ['4.3'] } as Partial<Record<Part, string[]>>, met)).toEqual([
    expect.stringMatching(/names Podman, .* and no test used it$/),
    expect.stringMatching(/does not name Docker, .*, which tests used$/),
  ]);
});
