import { readdirSync, readFileSync } from 'node:fs';
import {
  brokenImports,
  importCycle,
  importsOf,
  type PackageRule,
  type Sources,
} from '@gpg-bridge/test-support/import-order';
import { describe, expect, it } from 'vitest';

/** What each package may import. Within a package a part knows those of the rows above its own. */
const RULES: Readonly<Record<string, PackageRule>> = {
  core: {
    packages: [],
    parts: [
      ['text'],
      ['errors', 'fs', 'git-settings', 'log', 'socket-type'],
      ['bytes', 'io', 'process'],
      ['assuan', 'mux', 'ssh'],
      ['machine'],
      ['gnupg'],
      ['host', 'remote'],
    ],
  },
  'socket-server': { packages: ['core'], parts: [['launch'], ['*']] },
  cli: {
    packages: ['core', 'socket-server'],
    parts: [
      ['environment', 'version'],
      ['bridge-options'],
      ['option-values'],
      ['engine', 'grants', 'terminal'],
      ['targets'],
      ['bridge'],
      ['daemon', 'demo'],
      ['manager'],
      ['auto', 'doctor'],
      ['commands'],
      ['program', 'quick-up'],
      ['index', 'main'],
    ],
  },
  'vscode-shared': {
    packages: ['core'],
    parts: [['l10n', 'vscode-api'], ['status-report'], ['status-html'], ['*']],
  },
  'vscode-agent': {
    packages: ['core', 'vscode-shared'],
    parts: [
      ['dialog-pace', 'grant-store', 'remote-authority', 'told-block'],
      ['confirmed-settings'],
      ['consent'],
      [
        'agent-service',
        'choose-keys',
        'consent-dialogs',
        'remote-half',
        'use-records',
        'waiting-notice',
        'wrong-settings',
      ],
      ['host-report', 'menu'],
      ['wiring'],
      ['extension'],
    ],
  },
  'vscode-request': {
    packages: ['core', 'vscode-shared'],
    parts: [
      ['heartbeat', 'host', 'owner-socket', 'remote-state', 'retry', 'walkthrough'],
      ['key-sync', 'ownership'],
      ['status'],
      [
        'cures',
        'error-board',
        'other-forward',
        'remote-report',
        'sharing-notice',
        'situation',
        'status-item',
      ],
      ['socket-share'],
      ['menu', 'remote-bridge', 'test-signing'],
      ['wiring'],
      ['extension'],
    ],
  },
  'test-support': {
    packages: ['core', 'socket-server', 'vscode-shared'],
    parts: [
      ['lock', 'log-book', 'openpgp-keys', 'process', 'script', 'tcp-relay', 'temp', 'wire', 'within'],
      ['native-server', 'tested-with'],
      ['engine', 'gnupg-home', 'socket-pair'],
      ['cli', 'proxied-homes'],
      ['kubernetes', 'terminal', 'windows'],
      ['*'],
    ],
    testing: true,
  },
};

/** Every source file under a folder, by its path from the root of the repository. */
function sourcesUnder(folder: string, include: (file: string) => boolean): Sources {
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((file) => `${folder}/${file.replaceAll('\\', '/')}`)
    .filter((file) => file.endsWith('.ts') && !/\/(?:node_modules|dist)\//.test(file) && include(file));
  return new Map(files.map((file) => [file, readFileSync(file, 'utf8')]));
}

const isTest = (file: string) => file.endsWith('.test.ts');
/** Tests are left out: they may look into every part. */
const product = sourcesUnder('packages', (file) => file.includes('/src/') && !isTest(file));

describe('imports', () => {
  it('of every package keep to its order', () => {
    expect(product.size).toBeGreaterThan(100);
    expect(brokenImports(product, RULES)).toEqual([]);
  });

  it('make no cycle among files', () => {
    expect(importCycle(product)).toBeUndefined();
  });

  it('climb no more than two levels in tests either', () => {
    const tests = [...sourcesUnder('packages', isTest), ...sourcesUnder('test', () => true)];
    // This file's own examples of what must not be are no imports.
    const others = new Map(tests.filter(([file]) => !import.meta.filename.endsWith(file)));
    const climbing = importsOf(others).filter(({ specifier }) => specifier.startsWith('../../../'));
    expect(climbing).toEqual([]);
  });
});

describe('the check of imports', () => {
  const rules: Readonly<Record<string, PackageRule>> = {
    core: { packages: [], parts: [['bytes'], ['host', 'remote'], ['*']] },
    cli: { packages: ['core'], parts: [['main']] },
  };
  const broken = (file: string, text: string) => brokenImports(new Map([[file, text]]), rules);

  it.each([
    ["import { a } from '../bytes/list.ts';", undefined],
    ["import type { A } from '../remote/listen.ts';", 'host comes before remote, or beside it'],
    ["export * from '../remote/listen.ts';", 'host comes before remote, or beside it'],
    ["import {\n  type A,\n  b,\n} from '../other/late.ts';", 'host comes before other, or beside it'],
    ["const a = await import('../other.ts');", 'host comes before other, or beside it'],
    ["import '@gpg-bridge/cli/main';", 'core may import no other package'],
    ["import { it } from 'vitest';", 'product code knows no test runner'],
    ["import { temp } from '@gpg-bridge/test-support/temp';", 'core may import no other package'],
    ["import a from '../../../cli/src/main.ts';", 'it climbs more than two levels'],
    ["import a from '../../package.json';", undefined],
  ])('of a host file that says %j', (text, why) => {
    const specifier = /'([^']+)'/.exec(text)?.[1];
    expect(broken('packages/core/src/host/a.ts', text)).toEqual(
      why ? [`packages/core/src/host/a.ts imports '${specifier}': ${why}`] : [],
    );
  });

  it('names a part that has no place, and a package without a rule', () => {
    expect(broken('packages/cli/src/new/a.ts', "import 'node:fs';")[0]).toContain('new has no place');
    expect(broken('packages/unheard/src/a.ts', "import 'node:fs';")[0]).toContain(
      'package unheard has no rule',
    );
  });

  it('finds a cycle, across packages too', () => {
    const sources = new Map([
      ['packages/a/src/one.ts', "import type { Two } from './two.ts';"],
      ['packages/a/src/two.ts', "import { three } from '@gpg-bridge/b/three';"],
      ['packages/b/src/three.ts', "import { one } from '@gpg-bridge/a/one';"],
    ]);
    expect(importCycle(sources)).toEqual([
      'packages/a/src/one.ts',
      'packages/a/src/two.ts',
      'packages/b/src/three.ts',
      'packages/a/src/one.ts',
    ]);
    sources.delete('packages/b/src/three.ts');
    expect(importCycle(sources)).toBeUndefined();
  });
});
