import { BridgeError } from '@gpg-bridge/core/errors';
import { t } from './l10n.ts';

/** Throws unless the extension of the host and the extension of the remote fit together. */
export function assertCompatible(hostVersion: string, remoteVersion: string): void {
  const host = parse(hostVersion);
  const remote = parse(remoteVersion);
  // Patch releases never change what passes between the two.
  if (host[0] === remote[0] && host[1] === remote[1]) return;
  const hostIsOlder = host[0] < remote[0] || (host[0] === remote[0] && host[1] < remote[1]);
  throw new BridgeError('VERSION_MISMATCH', {
    what: t('the two halves of GPG Bridge do not fit together'),
    why: t(
      '"Local GPG Bridge" is {0}, "Remote GPG Bridge" in this remote is {1}',
      hostVersion,
      remoteVersion,
    ),
    fix: hostIsOlder
      ? t('Update "Local GPG Bridge", then reload the window.')
      : t('Update "Remote GPG Bridge" in this remote, then reload the window.'),
  });
}

function parse(version: string): [major: number, minor: number] {
  const [major, minor] = version.split('.').map(Number);
  return [major || 0, minor || 0];
}
