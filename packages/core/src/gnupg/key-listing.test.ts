import { describe, expect, it } from 'vitest';
import { parseKeyListing } from './key-listing.ts';

describe('parseKeyListing', () => {
  it('tells which keys can sign now, and until when', () => {
    const listing = [
      'sec:u:255:22:A:1:2000000000::u:::scESC:::+::ed25519:::0:',
      'fpr:::::::::A1:',
      'uid:u::::1::X::First <a@x>:',
      'uid:r::::1::X::Revoked <b@x>:',
      'uid:u::::1::X::Second <c@x>:',
      'sec:e:255:22:B:1:2::u:::sc:::+::ed25519:::0:',
      'fpr:::::::::B1:',
      'sec:r:255:22:C:1:::u:::sc:::+::ed25519:::0:',
      'fpr:::::::::C1:',
    ].join('\n');
    expect(parseKeyListing(listing)).toEqual([
      expect.objectContaining({
        fingerprint: 'A1',
        userIds: ['First <a@x>', 'Second <c@x>'],
        expires: 2_000_000_000,
        canSign: true,
      }),
      expect.objectContaining({ fingerprint: 'B1', expired: true, revoked: false, canSign: false }),
      expect.objectContaining({ fingerprint: 'C1', expires: undefined, revoked: true, canSign: false }),
    ]);
  });

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
