/** A ciphertext in the form in which gpg sends one, which no key decrypts to anything. */
export const CIPHERTEXT = '(7:enc-val(3:rsa(1:a4:abcd)))';
