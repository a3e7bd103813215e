import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

const read = (path: string) => JSON.parse(readFileSync(path, 'utf8')) as Record<string, string>;

/** Purposes come from the core as they are, and are translated where they are shown. */
const PURPOSES = ['a signature', 'a decryption', 'an authentication'];

/** The texts that the sources of a package hand to `t`. */
function textsIn(name: string): string[] {
  const folder = `packages/${name}/src`;
  return readdirSync(folder)
    .filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts'))
    .flatMap((file) => [
      ...readFileSync(`${folder}/${file}`, 'utf8').matchAll(
        /\bt\(\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")/g,
      ),
    ])
    .map(([, single, double]) => (single ?? double ?? '').replace(/\\(.)/g, '$1'));
}

const placeholders = (text: string) => (text.match(/\{\d\}/g) ?? []).sort().join();

describe.each(['vscode-agent', 'vscode-request'])('the German of %s', (name) => {
  const german = read(`packages/${name}/l10n/bundle.l10n.de.json`);
  const texts = [...new Set([...PURPOSES, ...textsIn(name), ...textsIn('vscode-shared')])];

  it('has every text, with its placeholders, and no other', () => {
    expect(texts.length).toBeGreaterThan(60);
    expect(Object.keys(german).sort()).toEqual(texts.sort());
    for (const [text, translated] of Object.entries(german))
      expect(placeholders(translated), text).toBe(placeholders(text));
  });
});

describe.each([
  ['vscode-agent', 'package.json'],
  ['vscode-request', 'package.json'],
  ['vscode-pack', 'manifest.json'],
])('the manifest of %s', (name, manifest) => {
  it('names texts that are there in both languages, and all of them', () => {
    const source = readFileSync(`packages/${name}/${manifest}`, 'utf8');
    const named = [...new Set([...source.matchAll(/"%([\w.]+)%"/g)].map(([, key]) => key!))].sort();
    expect(named.length).toBeGreaterThan(5);
    for (const language of ['package.nls.json', 'package.nls.de.json'])
      expect(Object.keys(read(`packages/${name}/${language}`)).sort()).toEqual(named);
  });
});
