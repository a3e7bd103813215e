/** A hash algorithm whose digests GnuPG signs. */
export interface Digest {
  /** OpenPGP's number. */
  number: number;
  name: string;
  hexDigits: number;
}

/** MD5 and unhashed data are not among them. */
export const DIGESTS: readonly Digest[] = [
  { number: 2, name: 'sha1', hexDigits: 40 },
  { number: 3, name: 'rmd160', hexDigits: 40 },
  { number: 8, name: 'sha256', hexDigits: 64 },
  { number: 9, name: 'sha384', hexDigits: 96 },
  { number: 10, name: 'sha512', hexDigits: 128 },
  { number: 11, name: 'sha224', hexDigits: 56 },
];
