import { describeFailure, runProgram } from '../process/run-program.ts';
import { findProgram, type GnupgOptions } from './programs.ts';
import { type GpgFailed, gpgRunner } from './run-gpg.ts';

/** A key as one certificate has it. */
export interface CertifiedKey {
  keygrip: string;
  /** gpg's letters for what it may be used for, and in capitals what the whole certificate can do now. */
  capabilities: string;
  /** Whether its kind of key can decrypt at all, whatever the certificate says. */
  canDecrypt: boolean;
}

/** Records that begin a key; a `grp` record behind one has its keygrip. */
const KEY_RECORDS: ReadonlySet<string> = new Set(['pub', 'sub', 'sec', 'ssb', 'crt', 'crs']);
/** OpenPGP's numbers for DSA and EdDSA. */
const ONLY_SIGNING: ReadonlySet<string> = new Set(['17', '22']);
/** Curves that are for signatures alone, in gpg's words. A certificate can call a key on one of them an ECDH key. */
const SIGNING_CURVE = /^ed(?:25519|448)$/i;
const LISTING = ['--with-colons', '--with-keygrip', '--list-keys'];
const MAX_LISTING = 64 * 1024 * 1024;
const TIMEOUT_MS = 60_000;
/** gpgsm shows no letter for uses that it has none for, such as key agreement: such a key may do anything. */
const ANY_X509_USE = 'sce';

/** The keys and subkeys of a colon listing of gpg's or gpgsm's, one entry for each certificate that has them. */
export function parseCertifiedKeys(listing: string): CertifiedKey[] {
  const keys: CertifiedKey[] = [];
  let key: Omit<CertifiedKey, 'keygrip'> | undefined;
  for (const line of listing.split(/\r?\n/)) {
    const fields = line.split(':');
    const [record = '', , , algorithm = ''] = fields;
    if (KEY_RECORDS.has(record)) {
      const canDecrypt = !ONLY_SIGNING.has(algorithm) && !SIGNING_CURVE.test(fields[16] ?? '');
      key = { capabilities: fields[11] ?? '', canDecrypt };
    } else if (record === 'grp' && fields[9] && key) {
      keys.push({ keygrip: fields[9].toUpperCase(), ...key });
    }
  }
  return keys;
}

/** The same for gpgsm's listing. */
export function parseX509Keys(listing: string): CertifiedKey[] {
  return parseCertifiedKeys(listing).map((key) => ({
    ...key,
    capabilities: key.capabilities || ANY_X509_USE,
  }));
}

/** The keys of all OpenPGP certificates, expired, revoked and disabled ones included. */
export async function listOpenPgpKeys(options: GnupgOptions, failed: GpgFailed): Promise<CertifiedKey[]> {
  const gpg = await gpgRunner(options, failed);
  const result = await gpg(LISTING);
  if (result.status !== 0) throw failed(`gpg --list-keys failed: ${describeFailure(result)}`);
  return parseCertifiedKeys(result.stdout.toString());
}

/** The keys of all X.509 certificates; none where there is no gpgsm. */
export async function listX509Keys(options: GnupgOptions, failed: GpgFailed): Promise<CertifiedKey[]> {
  const program = await findProgram('gpgsm', options).catch(() => undefined);
  if (!program) return [];
  const args = ['--batch', '--no-tty', '--disable-dirmngr', ...LISTING];
  const limits = { timeoutMs: TIMEOUT_MS, maxOutput: MAX_LISTING };
  const result = await runProgram(program, args, { env: options.env, ...limits }).catch((cause: unknown) => {
    throw failed(`${program} can't be started`, cause);
  });
  if (result.status !== 0) throw failed(`gpgsm --list-keys failed: ${describeFailure(result)}`);
  return parseX509Keys(result.stdout.toString());
}
