import { toBridgeError } from '@gpg-bridge/core/errors';
import { findProgram, type GnupgOptions } from '@gpg-bridge/core/gnupg/programs';
import { runProgram } from '@gpg-bridge/core/process/run-program';
import { t } from './l10n.ts';
import type { ReportLine } from './status-report.ts';

/** Where GnuPG was found and which version it is, or why it was not. */
export async function describeGnupg(gnupg: GnupgOptions): Promise<ReportLine> {
  const label = t('GnuPG');
  try {
    const { path, version } = await findGnupg(gnupg);
    return { label, value: version ? t('{0}, version {1}', path, version) : path };
  } catch (error) {
    const { why } = toBridgeError(error, '');
    return { label, value: t('not found: {0}', why), tone: 'bad' };
  }
}

/** The same for the log, which is in English. */
export async function gnupgForLog(gnupg: GnupgOptions): Promise<string> {
  try {
    const { path, version = 'unknown' } = await findGnupg(gnupg);
    return `GnuPG ${version} (${path})`;
  } catch (error) {
    return `no GnuPG found: ${toBridgeError(error, '').why}`;
  }
}

async function findGnupg(gnupg: GnupgOptions): Promise<{ path: string; version?: string | undefined }> {
  const path = await findProgram('gpg', gnupg);
  const { stdout } = await runProgram(path, ['--version'], { env: gnupg.env });
  const [, version] = /^gpg \(GnuPG[^)]*\) (\S+)/.exec(stdout.toString()) ?? [];
  return { path, version };
}
