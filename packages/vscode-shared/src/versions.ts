import { BridgeError } from '@gpg-bridge/core/errors';

/** Throws unless the extension of the host and the extension of the remote fit together. */
export function assertCompatible(hostVersion: string, remoteVersion: string): void {
  const host = parse(hostVersion);
  const remote = parse(remoteVersion);
  // Patch releases never change what passes between the two.
  if (host[0] === remote[0] && host[1] === remote[1]) return;
  const hostIsOlder = host[0] < remote[0] || (host[0] === remote[0] && host[1] < remote[1]);
  throw new BridgeError('VERSION_MISMATCH', {
    what: 'the two GPG Bridge extensions do not fit together',
    why: `gpg-bridge-agent on your computer is ${hostVersion}, gpg-bridge-request in this remote is ${remoteVersion}`,
    fix: hostIsOlder
      ? 'Update gpg-bridge-agent on your computer, then reload the window.'
      : 'Update gpg-bridge-request in this remote, then reload the window.',
  });
}

function parse(version: string): [major: number, minor: number] {
  const [major, minor] = version.split('.').map(Number);
  return [major || 0, minor || 0];
}
