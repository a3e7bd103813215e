/** A key of a keyring, as `gpg --with-colons --list-keys` or `--list-secret-keys` lists it. */
export interface ListedKey {
  fingerprint: string;
  userId: string;
  /** Whether its secret half is on this machine or on its smart card. */
  secret: boolean;
  revoked: boolean;
  expired: boolean;
  /** Of the primary key and every subkey: what gpg-agent knows a key by. Empty without --with-keygrip. */
  keygrips: string[];
}

/** The same with what decides whether a key can be used today. */
export interface KeyDetails extends ListedKey {
  /** All of its user IDs but those that were revoked. */
  userIds: string[];
  /** When it expires or did, in seconds since 1970; undefined: never. */
  expires: number | undefined;
  /** Whether it, or one of its subkeys, can sign now. */
  canSign: boolean;
  /** The fingerprints of its subkeys. */
  subkeys: string[];
}

/** Reads gpg's colon listing: a `pub` or `sec` record begins a key, what follows belongs to it. */
export function parseKeyListing(listing: string): KeyDetails[] {
  const keys: KeyDetails[] = [];
  for (const line of listing.split(/\r?\n/)) {
    const fields = line.split(':');
    const value = fields[9] ?? '';
    const key = keys.at(-1);
    if (fields[0] === 'pub' || fields[0] === 'sec') {
      const [record, validity, , , , , expires, , , , , capabilities = ''] = fields;
      keys.push({
        fingerprint: '',
        userId: '',
        userIds: [],
        secret: record === 'sec',
        revoked: validity === 'r',
        expired: validity === 'e',
        expires: expires ? Number(expires) : undefined,
        // Capital letters are of the whole key, and only what can be used now.
        canSign: capabilities.includes('S'),
        subkeys: [],
        keygrips: [],
      });
    } else if (fields[0] === 'fpr' && key) {
      if (key.fingerprint) key.subkeys.push(value);
      else key.fingerprint = value;
    } else if (fields[0] === 'uid' && key) {
      key.userId ||= unescapeField(value);
      if (fields[1] !== 'r') key.userIds.push(unescapeField(value));
    } else if (fields[0] === 'grp' && key) key.keygrips.push(value);
  }
  return keys.filter((key) => key.fingerprint !== '');
}

/** gpg writes control characters and colons as `\xHH`, byte by byte. */
function unescapeField(field: string): string {
  return field.replace(/\\x([0-9a-f]{2})/gi, (_match, hex: string) => {
    const code = Number.parseInt(hex, 16);
    return code < 0x20 || code === 0x7f ? '\uFFFD' : String.fromCharCode(code);
  });
}
