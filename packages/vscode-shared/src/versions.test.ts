import { describe, expect, it } from 'vitest';
import { assertCompatible } from './versions.ts';

describe('assertCompatible', () => {
  it.each([
    ['0.1.0', '0.1.0'],
    ['0.1.0', '0.1.9'],
    ['1.4.2', '1.4.0'],
  ])('accepts %s with %s', (host, remote) => {
    expect(() => assertCompatible(host, remote)).not.toThrow();
  });

  it.each([
    ['0.1.0', '0.2.0', '"Local GPG Bridge"'],
    ['0.10.0', '0.9.0', '"Remote GPG Bridge" in this remote'],
    ['2.0.0', '1.9.0', '"Remote GPG Bridge" in this remote'],
    ['', '1.0.0', '"Local GPG Bridge"'],
  ])('says which of %s and %s to update', (host, remote, update) => {
    expect(() => assertCompatible(host, remote)).toThrow(
      expect.objectContaining({ code: 'VERSION_MISMATCH', fix: expect.stringContaining(`Update ${update}`) }),
    );
  });
});
