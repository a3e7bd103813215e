import { describe, expect, it } from 'vitest';
import { badPair, isOlder, versionIn } from './versions.ts';

describe('versions of GnuPG', () => {
  it.each([
    ['2.2.40', '2.4.0', true],
    ['2.4.0', '2.2.40', false],
    ['2.2.9', '2.2.40', true],
    ['2.2.40', '2.2.40', false],
    ['2.1', '2.1.17', true],
  ])('%s before %s: %s', (version, than, older) => {
    expect(isOlder(version, than)).toBe(older);
  });

  it('are read from the first line', () => {
    expect(versionIn('gpg (GnuPG) 2.2.40\nlibgcrypt 1.10.1\n')).toBe('2.2.40');
    expect(versionIn('gpg (GnuPG) 2.4.8-unknown')).toBe('2.4.8');
    expect(versionIn('command not found\n1.2.3')).toBeUndefined();
  });

  it.each([
    ['2.2.40', '2.0.22', 'target'],
    ['2.2.40', '1.4.23', 'target'],
    ['2.1.15', '2.2.40', 'host'],
    ['2.2.40', '2.4.7', undefined],
    ['2.4.7', '2.2.40', undefined],
  ])('agent %s with gpg %s needs an update of %s', (agent, client, side) => {
    expect(badPair(agent, client)?.update).toBe(side);
  });
});
