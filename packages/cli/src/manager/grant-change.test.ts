import { chmodSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { BridgeError } from '@gpg-bridge/core/errors';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it } from 'vitest';
import type { BridgeOptions } from '../bridge-options.ts';
import { StoredGrants } from '../daemon/stored-grants.ts';
import type { Target } from '../targets/target.ts';
import { GrantChange } from './grant-change.ts';

/** A container, as far as a grant looks at it. */
const container = (id: string, name: string, user = '0') =>
  ({ kind: 'docker', id, name, place: 'unix:///run/docker.sock', user }) as Target;

async function grants() {
  const directory = await tempDir();
  const stored = new StoredGrants(directory);
  const change = (target: Target, given: BridgeOptions) => new GrantChange(stored, target, given);
  /** What a bridge gets that is brought up with these options. */
  const up = async (target: Target, given: BridgeOptions = {}) => {
    const made = change(target, given);
    await made.begin();
    await made.commit();
    return made.options;
  };
  const files = () => (existsSync(join(directory, 'grants')) ? readdirSync(join(directory, 'grants')) : []);
  return { directory, stored, change, up, files };
}

describe('what is stored for a container', () => {
  it('holds for one that was made again under its name, and for one that has another name now', async () => {
    const { up } = await grants();
    await up(container('1', 'box'), { gpgKeys: ['a'], allowPassphrase: true, takeover: true });
    expect(await up(container('2', 'box'))).toEqual({ gpgKeys: ['a'] });
    expect(await up(container('2', 'renamed'))).toEqual({ gpgKeys: ['a'] });
    expect(await up(container('3', 'other'))).toEqual({});
  });

  it('holds for Podman where Docker leads to the same engine, and for another engine by its ID alone', async () => {
    const { up } = await grants();
    const inPodman = (id: string, place = 'unix:///run/docker.sock') =>
      ({ kind: 'podman', id, name: 'podman:box', place, user: '0' }) as Target;
    await up(container('1', 'box'), { gpgKeys: ['a'] });
    expect(await up(inPodman('2'))).toEqual({ gpgKeys: ['a'] });
    expect(await up(inPodman('1', 'default'))).toEqual({ gpgKeys: ['a'] });
    expect(await up(inPodman('3', 'unix:///run/podman.sock'))).toEqual({});
    expect(await up(inPodman('6', 'ssh://work'))).toEqual({});
    await up(inPodman('4'), { confirm: true });
    expect(await up(container('5', 'box'))).toEqual({ gpgKeys: ['a'], confirm: true });
  });

  it('holds for every user, unless that one was given others', async () => {
    const { up } = await grants();
    await up(container('1', 'box'), { gpgKeys: ['a'], confirm: true });
    expect(await up(container('1', 'box', '1000'), { user: 'dev' })).toMatchObject({
      gpgKeys: ['a'],
      confirm: true,
    });
    await up(container('1', 'box', '1000'), { user: 'dev', gpgKeys: ['b'] });
    expect(await up(container('1', 'box'))).toEqual({ gpgKeys: ['a'], confirm: true });
    expect(await up(container('1', 'box', '1000'), { user: 'dev' })).toMatchObject({
      gpgKeys: ['b'],
      confirm: true,
    });
  });

  it('is as before a rule whose options leave nothing', async () => {
    const { up, change } = await grants();
    await up(container('1', 'box'), { ssh: false });
    const byRule = change(container('1', 'box'), { rule: 'box', gpg: false, confirm: true });
    await byRule.begin();
    await byRule.failed(
      new BridgeError('USAGE', { what: 'no bridge', why: 'nothing is left', fix: 'None.' }),
    );
    expect(await up(container('1', 'box'))).toEqual({ ssh: false, confirm: true });
  });

  it("stays what a person's change took away that is refused later", async () => {
    const { up, change } = await grants();
    const byPerson = change(container('1', 'box'), { gpg: false });
    await byPerson.begin();
    await byPerson.failed(
      new BridgeError('USAGE', { what: 'no bridge', why: 'nothing is left', fix: 'None.' }),
    );
    expect(await up(container('1', 'box'))).toEqual({ gpg: false });
  });

  it('leaves no key where two choices have none in common, until one is named', async () => {
    const { up } = await grants();
    await up(container('1', 'box'), { gpgKeys: ['a'] });
    await up(container('2', 'other'), { gpgKeys: ['b'] });
    const renamed = container('1', 'other');
    expect(await up(renamed)).toEqual({ gpg: false, gpgKeys: ['0'.repeat(40)] });
    expect(await up(renamed, { gpgKeys: ['a'] })).toEqual({ gpgKeys: ['a'] });
    expect(await up(renamed)).toEqual({ gpgKeys: ['a'] });
    await up(renamed, { gpg: false });
    await expect(up(renamed, { gpgKeys: ['a'] })).rejects.toThrow('--no-gpg was given before and holds');
  });

  it('holds against a rule, which has what it says stored, too', async () => {
    const { up } = await grants();
    await up(container('1', 'box'), { gpgKeys: ['a'] });
    const byRule = { rule: 'box', gpgKeys: ['b'], confirm: true };
    expect(await up(container('1', 'box'), byRule)).toEqual({ ...byRule, gpgKeys: ['a'] });
    expect(await up(container('1', 'box'))).toEqual({ gpgKeys: ['a'], confirm: true });
    expect(await up(container('1', 'box'), { confirm: false })).toEqual({ gpgKeys: ['a'], confirm: false });
    expect(await up(container('1', 'box'))).toEqual({ gpgKeys: ['a'] });
  });

  it('refuses when the time of --for is over, also by a rule, until a person names one', async () => {
    const { stored, up, change } = await grants();
    const over = expect.objectContaining({ code: 'TIME_OVER' });
    const later = new Date(Date.now() + 3_600_000).toISOString();
    const box = container('1', 'box');
    expect(await up(box, { for: '1h', until: later })).toEqual({ for: '1h', until: later });
    expect(await up(box)).toEqual({ for: '1h', until: later });
    const then = Date.parse(later);
    const at = (given: BridgeOptions) => {
      const one = new GrantChange(stored, box, given);
      one.checkTime(then);
      return one.options;
    };
    const evenLater = new Date(then + 1).toISOString();
    expect(() => at({})).toThrow(over);
    expect(() => at({ confirm: true })).toThrow(over);
    expect(() => at({ rule: 'box', for: '2h', until: evenLater })).toThrow(over);
    expect(at({ for: '2h', until: evenLater })).toEqual({ for: '2h', until: evenLater });
    expect(at({ for: 'none' })).toEqual({ for: 'none' });
    // The time of a rule counts anew each time that it brings a bridge up.
    await change(box, { for: 'none' }).commit();
    await up(box, { rule: 'box', for: '1h', until: later });
    expect(() => at({})).toThrow(over);
    expect(at({ rule: 'box', for: '1h', until: evenLater })).toMatchObject({ until: evenLater });
  });

  it('is narrower before a change is made, wider only after it', async () => {
    const { up, change, stored } = await grants();
    const box = container('1', 'box');
    await up(box, { gpgKeys: ['a'] });
    const made = change(box, { gpgKeys: [], confirm: true });
    expect(made.options).toEqual({ gpgKeys: [], confirm: true });
    await made.begin();
    expect(stored.read(box)[0]!.everyone).toEqual({ gpgKeys: ['a'], confirm: true });
    await made.commit();
    expect(stored.read(box)[0]!.everyone).toEqual({ confirm: true });
  });

  it('stays as narrow as it was named when nothing came of a change', async () => {
    const { up, change, stored } = await grants();
    const box = container('1', 'box');
    await up(box, { gpgKeys: ['a'] });
    const made = change(box, { gpgKeys: [], confirm: true });
    await made.begin();
    await made.commit();
    await made.failed();
    expect(stored.read(box)[0]!.everyone).toEqual({ gpgKeys: ['a'], confirm: true });
    // A key that is not there is as if it had not been named.
    const wrong = change(box, { gpgKeys: ['eve'], notify: true });
    await wrong.begin();
    const facts = { what: "can't offer the GPG key eve", why: 'none', fix: 'none' };
    await wrong.failed(new BridgeError('GPG_KEY_UNKNOWN', facts));
    expect(stored.read(box)[0]!.everyone).toEqual({ gpgKeys: ['a'], confirm: true, notify: true });
    const first = change(container('2', 'new'), { decrypt: false });
    await first.begin();
    await first.failed();
    expect(await up(container('2', 'new'))).toEqual({ decrypt: false });
  });

  it('holds for a user whose number the target has changed, and for whoever else has that number', async () => {
    const { up } = await grants();
    const as = (userWord: string, user: string): Target => ({ ...container('1', 'box', user), userWord });
    await up(as('dev', '1000'), { user: 'dev', gpgKeys: ['a'] });
    expect(await up(as('dev', '2000'), { user: 'dev' })).toMatchObject({ gpgKeys: ['a'] });
    expect(await up(as('1000', '1000'), { user: '1000' })).toMatchObject({ gpgKeys: ['a'] });
    expect(await up(as('0', '0'))).toEqual({});
    await up(as('dev', '2000'), { user: 'dev', gpgKeys: [] });
    expect(await up(as('dev', '2000'), { user: 'dev' })).toEqual({ user: 'dev' });
    expect(await up(as('1000', '1000'), { user: '1000' })).toMatchObject({ gpgKeys: ['a'] });
  });

  it('holds by the words that lead to a place, whatever leads them elsewhere', async () => {
    const { up, stored } = await grants();
    const at = (canonical: string, typed: string) =>
      ({ kind: 'ssh', id: typed, canonical, name: `ssh:${typed}`, typed, user: '' }) as Target;
    await up(at('there', 'host'), { gpgKeys: ['a'] });
    expect(await up(at('elsewhere', 'host'))).toEqual({ gpgKeys: ['a'] });
    expect(await up(at('there', 'alias'))).toEqual({ gpgKeys: ['a'] });
    await up(at('elsewhere', 'host'), { decrypt: false, gpgKeys: [] });
    expect(await up(at('elsewhere', 'host'))).toEqual({ decrypt: false });
    // What was stored by the place is not lifted from elsewhere.
    expect(await up(at('there', 'host'))).toEqual({ gpgKeys: ['a'], decrypt: false });
    expect(await stored.forget(at('there', 'host'))).toBe(true);
  });

  it('is changed by none of two processes at the expense of the other', async () => {
    const { up, stored } = await grants();
    const users = Array.from({ length: 20 }, (_, at) => String(at));
    await Promise.all(users.map((user) => up(container('1', 'box', user), { user, gpgKeys: [user] })));
    expect(Object.keys(stored.read(container('1', 'box'))[0]!.users).sort()).toEqual(users.sort());
  });

  it('excludes what would lift it without naming it, and recommends no such thing', async () => {
    const { up, change } = await grants();
    const box = container('1', 'box');
    await up(box, { gpg: false });
    expect(() => change(box, { gpgKeys: ['a'] })).toThrow('--no-gpg was given before and holds');
    expect(() => change(box, { gpgKeys: ['a'] })).toThrow('Leave --gpg-key out.');
    expect(await up(box, { gpg: true, gpgKeys: ['a'] })).toEqual({ gpg: true, gpgKeys: ['a'] });
    expect(await up(box, { gpg: false })).toEqual({ gpg: false, gpgKeys: ['a'] });
    expect(await up(box, { gpg: true })).toEqual({ gpg: true, gpgKeys: ['a'] });
  });

  it('is forgotten by its container, its name, or for one user alone', async () => {
    const { up, stored, files } = await grants();
    const box = container('1', 'box');
    await up(box, { gpgKeys: ['a'] });
    await up(container('1', 'box', '1000'), { user: 'dev', gpgKeys: ['b'] });
    expect(await stored.forgetUser(box, ['1000'])).toBe(true);
    expect(await stored.forgetUser(box, ['1000'])).toBe(false);
    expect(stored.read(box)[0]).toMatchObject({ everyone: { gpgKeys: ['a'] }, users: {} });
    expect(await stored.forget({ kind: 'docker', place: 'unix:///run/docker.sock', name: 'box' })).toBe(true);
    expect(stored.read(container('2', 'box'))).toEqual([]);
    expect(await stored.forget(box)).toBe(true);
    expect(await stored.forget(box)).toBe(false);
    expect(files()).toEqual([]);
  });

  it('is in files for their owner alone, and nothing is made for a target without restrictions', async () => {
    const { directory, up, files } = await grants();
    await up(container('1', 'box'), { keys: 'all' });
    expect(readdirSync(directory)).toEqual([]);
    await up(container('1', 'box'), { confirm: true });
    expect(statSync(join(directory, 'grants')).mode & 0o777).toBe(0o700);
    for (const file of files()) {
      expect(file).toMatch(/^[0-9a-f]{64}\.json$/);
      expect(statSync(join(directory, 'grants', file)).mode & 0o777).toBe(0o600);
    }
  });

  it('brings nothing up if it can not be understood, or others could have written it', async () => {
    const { directory, up, change, files } = await grants();
    const box = container('1', 'box');
    await up(box, { confirm: true });
    const unreadable = expect.objectContaining({ code: 'GRANT_UNREADABLE' });
    const paths = files().map((file) => join(directory, 'grants', file));
    const texts = paths.map((path) => readFileSync(path, 'utf8'));
    const damage: [string | RegExp, string][] = [
      [/^.*$/s, ''],
      ['"version":1', '"version":2'],
      ['"confirm":true', '"confrim":true'],
      ['"confirm":true', '"confirm":"yes"'],
      ['"users":{}', '"users":{"0":{"takeover":true}}'],
      ['"users":{}', '"users":{},"more":1'],
      ['"users":{}', '"users":null'],
      ['"ruleUsers":{}', '"ruleUsers":{"0":{"takeover":true}}'],
      ['docker.sock', 'podman.sock'],
    ];
    for (const [what, by] of damage) {
      for (const [at, path] of paths.entries()) writeFileSync(path, texts[at]!.replace(what, by));
      const isOfName = what === 'docker.sock';
      expect(() => change(isOfName ? container('2', 'box') : box, {}), String(what)).toThrow(unreadable);
    }
    for (const [at, path] of paths.entries()) writeFileSync(path, texts[at]!);
    expect(change(box, {}).options).toEqual({ confirm: true });
    chmodSync(join(directory, 'grants'), 0o777);
    expect(() => change(box, {})).toThrow(expect.objectContaining({ code: 'STATE_DIR_UNUSABLE' }));
  });
});
