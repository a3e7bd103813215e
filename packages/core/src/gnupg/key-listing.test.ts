import { describe, expect, it } from 'vitest';
import { parseKeyListing } from './key-listing.ts';

describe('parseKeyListing', () => {
  it('ignores what belongs to no key, and what has no fingerprint', () => {
    expect(
      parseKeyListing('tru::1:2:3\nfpr:::::::::AAAA:\npub:u:256:22:B:1::::::\nuid:u::::1::X::No print:\n'),
    ).toEqual([]);
  });

  it('shows no control character of a user ID', () => {
    const listing = 'pub:u:\nfpr:::::::::F1:\nuid:u::::1::X::Zoë\\x0a\\x3a\\x1b[2J <e@x>:\n';
    expect(parseKeyListing(listing)[0]?.userId).toBe('Zoë\uFFFD:\uFFFD[2J <e@x>');
  });
});
