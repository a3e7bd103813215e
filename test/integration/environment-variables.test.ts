import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { isListed } from '../../packages/cli/src/environment.ts';

const PACKAGES = join(import.meta.dirname, '../../packages');

/** What an environment is called in the code. */
const ENV = String.raw`(?:process\s*\.\s*)?\b(?:env|environment)\b(?!-)`;
const NAME = String.raw`[A-Za-z_]\w*`;

/** Ways to read a variable by a name that stands in the code; the first group has the name, or several. */
const READS: readonly RegExp[] = [
  new RegExp(String.raw`${ENV}\s*\)?\s*!?\s*\??\.\s*([A-Z]\w*)`, 'g'),
  new RegExp(String.raw`${ENV}\s*\??\.?\s*\[\s*['"\`]([^'"\`]+)['"\`]\s*\]`, 'g'),
  // const { A, B: b, ...rest } = process.env; ({ A }: NodeJS.ProcessEnv)
  /\{([^{}]*)\}\s*=\s*[^;{}]*?\b(?:env|Environment\([^;]*)\s*;/g,
  /\{([^{}]*)\}\s*:\s*NodeJS\.ProcessEnv/g,
];

/** Reads by a name that is computed; each is in the list, or is the name that another program's file has. */
const COMPUTED = new RegExp(String.raw`${ENV}\s*\??\.?\s*\[\s*(${NAME})\s*\]`, 'g');
const COMPUTED_ALLOWED: Readonly<Record<string, readonly string[]>> = {
  'cli/src/environment.ts': ['name'],
  'cli/src/daemon/environment.ts': ['CERTIFICATES', 'KEPT_CERTIFICATES'],
  'cli/src/manager/confirmable.ts': ['name'],
  'cli/src/bridge/heartbeat-times.ts': ['VARIABLE'],
  // Names of Windows have no case; the callers give names that are in the list.
  'core/src/gnupg/programs.ts': ['name', 'key'],
  // A socket file of libassuan may name any variable.
  'core/src/host/socket-file.ts': ['name'],
};

/** A constant whose text is the name of a variable. */
const CONSTANT = /'((?:GPG_BRIDGE|XDG|DOCKER|CONTAINERS?|SSH_AUTH|GNUPG|KUBE|KUBERNETES|GIT|NODE)_[A-Z_]+)'/g;

interface Read {
  file: string;
  name: string;
}

function sources(): [file: string, text: string][] {
  const packages = readdirSync(PACKAGES).filter(
    (name) => name !== 'test-support' && existsSync(join(PACKAGES, name, 'src')),
  );
  return packages.flatMap((name) =>
    readdirSync(join(PACKAGES, name, 'src'), { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts'))
      .map((file): [string, string] => [
        join(name, 'src', file),
        readFileSync(join(PACKAGES, name, 'src', file), 'utf8').replace(/^\s*(?:\/\/|\/?\*).*$/gm, ''),
      ]),
  );
}

/** The variables that a text reads by name. */
function readsIn(text: string): string[] {
  return [...READS.flatMap((pattern) => [...text.matchAll(pattern)]), ...text.matchAll(CONSTANT)]
    .flatMap(([, names = '']) => names.split(','))
    .map((name) => name.trim().split(/[:=]/)[0]!.trim())
    .filter((name) => /^[A-Z][A-Za-z0-9_()]*$/.test(name) && /[A-Z]{2}|[a-z][A-Z]/.test(name));
}

describe('the list of environment variables', () => {
  it.each([
    ['const x = process.env.SOME_THING;', 'SOME_THING'],
    ["env['SOME_THING']", 'SOME_THING'],
    ['(options.env ?? process.env).SOME_THING || y', 'SOME_THING'],
    ['const { A, SOME_THING: x, ...rest } = process.env;', 'SOME_THING'],
    ['const { SOME_THING } = surroundings.env;', 'SOME_THING'],
    ['function f({ SOME_THING }: NodeJS.ProcessEnv) {}', 'SOME_THING'],
    ["const VARIABLE = 'GPG_BRIDGE_THING';", 'GPG_BRIDGE_THING'],
    ['env.SystemDrive', 'SystemDrive'],
  ])('is compared with the read in %s', (text, name) => {
    expect(readsIn(text)).toEqual([name]);
    expect(isListed(name)).toBe(false);
  });

  it('has every variable that the product reads', () => {
    const reads = sources().flatMap(([file, text]) => readsIn(text).map((name): Read => ({ file, name })));
    expect(new Set(reads.map(({ name }) => name)).size).toBeGreaterThan(25);
    expect(reads.filter(({ name }) => !isListed(name))).toEqual([]);
  });

  it('is all that a computed name can come from', () => {
    const computed = sources().flatMap(([file, text]) =>
      [...text.matchAll(COMPUTED)].map(([, name = '']): Read => ({ file, name })),
    );
    const unknown = computed.filter(({ file, name }) => !COMPUTED_ALLOWED[file]?.includes(name));
    expect(unknown).toEqual([]);
  });
});
