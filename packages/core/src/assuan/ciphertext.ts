const OPEN = 0x28;
const CLOSE = 0x29;
const COLON = 0x3a;
/** Digits of an atom's length; no ciphertext needs more. */
const MAX_DIGITS = 5;
/**
 * Bytes of a point. Those that GnuPG sends have 32 and more; half of X448's 56 is the least that libgcrypt without the
 * fix of CVE-2026-41989 decodes within its memory.
 */
const MIN_POINT_BYTES = 28;

const ALGORITHMS: ReadonlySet<string> = new Set(['rsa', 'elg', 'ecdh', 'ecc', 'pqc']);
/**
 * Parts of a ciphertext; those of gpg 2.5's `--kem=PGP` are of an `ecc` with `kdf-params`. A list of flags is not among
 * them: flags change how the agent uses its key.
 */
const PARTS: ReadonlySet<string> = new Set(['a', 'b', 'c', 'e', 'h', 'k', 's', 'fixed-info', 'kdf-params']);
/** The part that is a point. */
const POINT = 'e';
/** What gpgsm adds for a CMS message that is encrypted to an elliptic curve; agents don't read it. */
const CMS_PARTS: ReadonlySet<string> = new Set(['encr-algo', 'wrap-algo', 'ukm']);

/**
 * Whether data is a ciphertext as GnuPG sends one to PKDECRYPT, in canonical form and with nothing behind it:
 * `(enc-val (ALGORITHM (PART VALUE) …) (CMS-PART VALUE) …)`.
 */
export function isCiphertext(data: Buffer): boolean {
  const reader = new SexpReader(data);
  if (!reader.opens() || reader.atom() !== 'enc-val') return false;
  if (!reader.opens() || !ALGORITHMS.has(reader.atom() ?? '')) return false;
  do if (!reader.part(PARTS)) return false;
  while (!reader.closes());
  while (!reader.closes()) if (!reader.part(CMS_PARTS)) return false;
  return reader.isAtEnd;
}

/** Reads a canonical S-expression from its beginning. */
class SexpReader {
  #at = 0;

  constructor(private readonly data: Buffer) {}

  get isAtEnd(): boolean {
    return this.#at === this.data.length;
  }

  opens(): boolean {
    return this.#take(OPEN);
  }

  closes(): boolean {
    return this.#take(CLOSE);
  }

  /** An atom `LENGTH:BYTES`; undefined for anything else, and for an empty one. */
  atom(): string | undefined {
    const colon = this.data.indexOf(COLON, this.#at);
    if (colon < 0 || colon - this.#at > MAX_DIGITS) return undefined;
    const digits = this.data.toString('latin1', this.#at, colon);
    const start = colon + 1;
    const end = start + Number(digits);
    if (!/^[1-9][0-9]*$/.test(digits) || end > this.data.length) return undefined;
    this.#at = end;
    return this.data.toString('latin1', start, end);
  }

  /** A list `(NAME VALUE)` of one of these names. */
  part(names: ReadonlySet<string>): boolean {
    if (!this.opens()) return false;
    const name = this.atom() ?? '';
    const value = this.atom();
    if (value === undefined || (name === POINT && value.length < MIN_POINT_BYTES)) return false;
    return names.has(name) && this.closes();
  }

  #take(byte: number): boolean {
    if (this.data[this.#at] !== byte) return false;
    this.#at++;
    return true;
  }
}
