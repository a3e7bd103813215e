import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { runOk } from './process.ts';

/** Which of a directory's certificates are for what. */
const USES = { server: 'serverAuth', client: 'clientAuth' } as const;

/**
 * Makes an authority and the certificates that it has signed, in a directory: `ca.pem`, `server-cert.pem` and
 * `server-key.pem` for 127.0.0.1, and the client's as `cert.pem` and `key.pem`.
 */
export async function makeCertificates(directory: string): Promise<void> {
  const file = (name: string) => join(directory, name);
  const openssl = (...args: string[]) => runOk('openssl', args);
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
  const authority = ['-keyout', file('ca-key.pem'), '-out', file('ca.pem')];
  await openssl('req', '-x509', ...key, '-days', '2', '-subj', '/CN=Test authority', ...authority);
  for (const [who, usage] of Object.entries(USES)) {
    const stem = who === 'client' ? '' : `${who}-`;
    await writeFile(file(`${who}.ext`), `subjectAltName=IP:127.0.0.1\nextendedKeyUsage=${usage}\n`);
    const request = ['-keyout', file(`${stem}key.pem`), '-out', file(`${who}.csr`)];
    await openssl('req', '-new', ...key, '-subj', `/CN=${who}`, ...request);
    const signer = ['-CA', file('ca.pem'), '-CAkey', file('ca-key.pem'), '-CAcreateserial'];
    const signed = ['-extfile', file(`${who}.ext`), '-days', '2', '-out', file(`${stem}cert.pem`)];
    await openssl('x509', '-req', '-in', file(`${who}.csr`), ...signer, ...signed);
  }
}
