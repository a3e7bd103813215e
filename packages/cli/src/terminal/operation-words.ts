/** What an operation is called in a log, by its command. */
const NOUNS: Readonly<Record<string, string>> = {
  PKSIGN: 'signature',
  PKDECRYPT: 'decryption',
  PKAUTH: 'authentication',
  GET_PASSPHRASE: 'passphrase',
  sign: 'ssh login',
};

/** What is said of one that was carried out. */
const DEEDS: Readonly<Record<string, string>> = {
  signature: 'signed',
  decryption: 'decrypted',
  authentication: 'authenticated',
  passphrase: 'passphrase given',
  'ssh signature': 'signed',
};

/** What somebody asked of a key, in a word; a command that has none is its own. */
export function operationName(command: string, purpose?: 'signature'): string {
  return purpose === 'signature' ? 'ssh signature' : (NOUNS[command] ?? command);
}

/** The same for one that has ended: `signed`, or `signature` if it was not made. */
export function operationWords(operation: string, outcome: string): string {
  return outcome === 'ok' ? (DEEDS[operation] ?? operation) : operation;
}
