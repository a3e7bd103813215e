import { chmod, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { addRule, approve, readRules, removeRule } from './rules.ts';
import { composeSelector, nameSelector } from './selector.ts';
import { noteWaiting, readWaiting, type WaitingContainer } from './waiting.ts';

let directory: string;

beforeEach(async () => {
  directory = join(await tempDir(), 'state');
  vi.stubEnv('GPG_BRIDGE_STATE_DIR', directory);
});

const waits: WaitingContainer = {
  rule: 'dev-*',
  engine: 'docker',
  container: 'dev-1',
  image: 'b'.repeat(64),
  imageName: 'dev',
  directory: '/home/ada/dev',
  since: '2026-01-01T00:00:00.000Z',
};

describe('rules', () => {
  it('are kept in order in a private file, and changed by the same words', async () => {
    expect(readRules()).toEqual([]);
    expect(await addRule(nameSelector('dev-*'), { options: { user: 'dev' } })).toMatchObject({ isNew: true });
    expect(await addRule(composeSelector('shop'), { options: {}, trust: true })).toMatchObject({
      isNew: true,
    });
    await approve([waits]);
    const changed = await addRule(nameSelector('dev-*'), { options: { ssh: false } });
    expect(changed).toMatchObject({ isNew: false, rule: { options: { user: 'dev', ssh: false } } });
    await addRule(composeSelector('shop'), { options: {} });
    expect(readRules()).toMatchObject([
      {
        selector: { kind: 'name', pattern: 'dev-*' },
        options: { ssh: false },
        approved: { images: [waits.image], directories: [waits.directory] },
      },
      { selector: { kind: 'compose', project: 'shop' }, trust: true },
    ]);
    expect((await stat(directory)).mode & 0o777).toBe(0o700);
    expect((await stat(join(directory, 'auto-rules.json'))).mode & 0o777).toBe(0o600);
    expect(await readdir(directory)).toEqual(['auto-rules.json']);
  });

  it('are removed by their words', async () => {
    await addRule(nameSelector('dev-*'), { options: {}, trust: false });
    expect(await removeRule('dev-')).toBe(false);
    expect(await removeRule('dev-*')).toBe(true);
    expect(readRules()).toEqual([]);
  });

  it('lose none when many are added at once', async () => {
    const names = Array.from({ length: 20 }, (_, i) => `box-${i}`);
    await Promise.all(names.map((name) => addRule(nameSelector(name), { options: {}, trust: false })));
    expect(readRules()).toHaveLength(20);
  });

  it.each([
    '{',
    '[]',
    'null',
    '{"rules": 5}',
    '{"rules": [], "rules": []}',
    '{"rulse": []}',
    '{"rules": [], "more": 1}',
    '{"rules": [null]}',
    '{"rules": [{"selector": {"kind": "name"}}]}',
  ])('in a file that says %s are an error, and the file stays', async (text) => {
    await addRule(nameSelector('dev-*'), { options: {}, trust: false });
    const path = join(directory, 'auto-rules.json');
    await writeFile(path, text);
    expect(readRules).toThrow(expect.objectContaining({ code: 'RULES_UNREADABLE' }));
    await expect(addRule(nameSelector('x'), { options: {}, trust: false })).rejects.toMatchObject({
      code: 'RULES_UNREADABLE',
    });
    expect(await readFile(path, 'utf8')).toBe(text);
  });

  /** A rule as `auto add` writes it. */
  const RULE = {
    selector: { kind: 'name', pattern: 'dev-*' },
    options: { confirm: true },
    trust: false,
    added: '2026-01-01T00:00:00.000Z',
    approved: { images: [], directories: [] },
  };

  it.each([
    [{ options: { confrim: true } }, ['options.confrim', 'Did you mean "confirm"?']],
    [{ options: { confirm: 'yes' } }, ['options.confirm', 'true or false']],
    [{ options: { Confirm: true } }, ['options.Confirm', 'Did you mean "confirm"?']],
    [{ options: { gpgKey: ['A'] } }, ['options.gpgKey', 'Did you mean "gpgKeys"?']],
    [{ options: { gpgKeys: 'A' } }, ['options.gpgKeys']],
    [{ options: { gpgKeys: [''] } }, ['options.gpgKeys']],
    [{ options: { gpgKeys: ['all'] } }, ['options.gpgKeys', '[] for all of them']],
    [{ options: { sshKeys: [' A'] } }, ['options.sshKeys']],
    [{ options: { keys: 5 } }, ['options.keys']],
    [{ options: { home: 'relative' } }, ['options.home']],
    [{ options: { idle: 'soon' } }, ['options.idle']],
    [{ options: { runtime: 'pearl' } }, ['options.runtime']],
    [{ options: { exec: 'ssh box' } }, ['options.exec']],
    [{ options: { until: '2026-01-01T00:00:00.000Z' } }, ['options.until']],
    [{ options: { gpg: false, ssh: false } }, ['options']],
    [{ options: JSON.parse('{"__proto__": {"confirm": true}}') }, ['options.__proto__']],
    [{ options: [] }, ['options']],
    [{ options: undefined }, ['options']],
    [{ optoins: {} }, ['optoins', 'Did you mean "options"?']],
    [{ trust: 'no' }, ['trust']],
    [{ added: 'yesterday' }, ['added']],
    [{ approved: { images: [], directories: [], image: [] } }, ['approved.image']],
    [{ approved: { images: [5], directories: [] } }, ['approved.images']],
    [{ selector: { kind: 'nmae', pattern: 'dev-*' } }, ['selector.kind', 'Did you mean "name"?']],
    [{ selector: { kind: 'name', pattern: 'dev-*', engin: 'docker' } }, ['selector.engin']],
    [{ selector: { kind: 'name', pattern: 'dev-*', engine: 'dokcer' } }, ['selector.engine']],
    [{ selector: { kind: 'name', pattern: 'a b' } }, ['selector.pattern']],
    [{ selector: { kind: 'label', key: 'a' } }, ['selector.value']],
    [{ selector: { kind: 'name', pattern: 'docker:a' } }, ['selector.pattern', '"engine":"docker"']],
    [{ selector: { kind: 'label', key: 'a=b', value: 'c' } }, ['selector.key', '"value":"b=c"']],
    [{ options: {} }, ['the selector of rule 1']],
  ])('with %j are an error that names the file, the rule and the field', async (change, said) => {
    await addRule(nameSelector('other'), { options: {}, trust: false });
    const path = join(directory, 'auto-rules.json');
    await writeFile(path, JSON.stringify({ rules: [RULE, { ...RULE, ...change }] }));
    let error: unknown;
    try {
      readRules();
    } catch (thrown) {
      error = thrown;
    }
    expect(error).toMatchObject({ code: 'RULES_UNREADABLE' });
    const { message } = error as Error;
    for (const part of [path, 'rule 2', ...said]) expect(message).toContain(part);
  });

  it('with an option that is given twice are an error, and not with a text that looks like one', async () => {
    const path = join(directory, 'auto-rules.json');
    await addRule(nameSelector('dev-*'), { options: { user: 'a"confirm":' }, trust: false });
    expect(readRules()).toHaveLength(1);
    await writeFile(
      path,
      JSON.stringify({ rules: [RULE] }).replace('"confirm":', '"confirm":true,"confirm" :'),
    );
    expect(readRules).toThrow('"confirm" twice');
    await writeFile(path, JSON.stringify({ rules: [RULE] }).replace('"trust"', '"options":{},"trust"'));
    expect(readRules).toThrow('"options" twice');
  });

  it('with every option that `auto add` takes are read again as they were written', async () => {
    const options = {
      gpg: true,
      ssh: true,
      user: 'dev',
      home: '/home/dev',
      keys: ['A', 'B'],
      sshKeys: ['SHA256:x'],
      sshFromGpg: false,
      gpgKeys: [],
      decrypt: false,
      allowPassphrase: false,
      confirm: true,
      notify: true,
      for: '2h',
      idle: 'none',
      gpgSocket: 'default',
      gnupgHome: '/keys',
      sshAuthSock: '/run/agent',
      runtime: 'perl' as const,
      ahead: false,
      git: true,
      takeover: true,
      restart: true,
    };
    await addRule(nameSelector('podman:dev-*'), { options, trust: true });
    expect(readRules()).toMatchObject([{ options, trust: true }]);
  });

  it('that could not be read again are not written', async () => {
    await addRule(nameSelector('dev-*'), { options: { confirm: true }, trust: false });
    const options = { confirm: true, confrim: true };
    await expect(addRule(nameSelector('dev-*'), { options, trust: false })).rejects.toMatchObject({
      code: 'RULES_UNREADABLE',
    });
    expect(readRules()).toMatchObject([{ options: { confirm: true } }]);
  });

  it('are not believed where others may write', async () => {
    await addRule(nameSelector('dev-*'), { options: {}, trust: false });
    await chmod(directory, 0o777);
    expect(readRules).toThrow(expect.objectContaining({ code: 'STATE_DIR_UNUSABLE' }));
  });
});

describe('what waits', () => {
  it('is noted once, and goes when it is approved or its rule is removed', async () => {
    await addRule(nameSelector('dev-*'), { options: {}, trust: false });
    expect(noteWaiting(waits, readRules())).toBe(true);
    expect(noteWaiting({ ...waits, since: '2026-01-02T00:00:00.000Z' }, readRules())).toBe(false);
    expect(noteWaiting({ ...waits, container: 'dev-2' }, readRules())).toBe(true);
    expect(readWaiting(readRules())).toHaveLength(2);
    await approve([waits]);
    expect(readWaiting(readRules())).toEqual([]);
    noteWaiting({ ...waits, image: 'c'.repeat(64) }, readRules());
    expect(readWaiting(readRules())).toHaveLength(1);
    await removeRule('dev-*');
    expect(readWaiting(readRules())).toEqual([]);
  });

  it('is bounded', async () => {
    await addRule(nameSelector('dev-*'), { options: {}, trust: false });
    for (let i = 0; i < 210; i++) noteWaiting({ ...waits, container: `dev-${i}` }, readRules());
    const waiting = readWaiting(readRules());
    expect(waiting).toHaveLength(200);
    expect(waiting.at(-1)?.container).toBe('dev-209');
  });
});
