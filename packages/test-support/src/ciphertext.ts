/** A ciphertext in the form in which gpg sends one, which no key decrypts to anything. */
export function ciphertextOf(content: string): string {
  return `(7:enc-val(3:rsa(1:a${content.length}:${content})))`;
}

export const CIPHERTEXT = ciphertextOf('abcd');
