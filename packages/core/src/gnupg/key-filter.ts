/** Which public keys: those with a secret half on the host, all, none, or the ones named as gpg takes names. */
export type KeyFilter = 'pairs' | 'all' | 'none' | readonly string[];
