/** The commands that use a private key, and so may wait for a PIN, a passphrase or a touch; with what they make. */
const PURPOSES: ReadonlyMap<string, string> = new Map([
  ['PKSIGN', 'a signature'],
  ['PKDECRYPT', 'a decryption'],
  ['PKAUTH', 'an authentication'],
]);

/** An answer to such a command that takes longer than this most likely waits for a person. */
export const PERSON_WAITS_AFTER_MS = 1_000;

/** Newer agents allow it on the extra socket; its prompt is in the target's words, and the target gets the answer. */
export const GET_PASSPHRASE = 'GET_PASSPHRASE';

/** Whether a command, in capitals, uses a private key. */
export function usesPrivateKey(command: string): boolean {
  return PURPOSES.has(command);
}

/** Whether a command uses a private key or a person's passphrase: then it is recorded and may wait for a person. */
export function isKeyUse(command: string): boolean {
  return usesPrivateKey(command) || command === GET_PASSPHRASE;
}

/** What a private-key command is for, in a person's words. */
export function purposeOf(command: string): string | undefined {
  return PURPOSES.get(command);
}
