import { BridgeError } from '@gpg-bridge/core/errors';
import { KeyNames } from '@gpg-bridge/core/gnupg/key-names';
import { gpgRunner, secretKeys } from '@gpg-bridge/core/gnupg/run-gpg';
import type { TargetUse } from '@gpg-bridge/core/host/key-use-attempt';
import { UseConfirmation } from '@gpg-bridge/core/host/use-confirmation';
import type { LogCallback } from '@gpg-bridge/core/log';

/** How the person at the host is asked about each use of a key by a target. */
export function confirmUses(target: () => string, log: LogCallback): NonNullable<TargetUse['confirm']> {
  const names = hostKeyNames();
  return new UseConfirmation({ target, nameOf: (key) => names.nameOf(key), log }).confirm;
}

/** Whose the host's private GPG keys are, by their keygrips. */
export function hostKeyNames(): KeyNames {
  const failed = (why: string, cause?: unknown) =>
    new BridgeError('KEY_EXPORT_FAILED', {
      what: "can't list the host's keys",
      why,
      fix: 'See whether `gpg --list-secret-keys` works.',
      cause,
    });
  return new KeyNames(async () => secretKeys(await gpgRunner({}, failed), failed));
}
