import { BridgeError } from '@gpg-bridge/core/errors';
import { KeyNames } from '@gpg-bridge/core/gnupg/key-names';
import { gpgRunner, secretKeys } from '@gpg-bridge/core/gnupg/run-gpg';
import type { TargetUse } from '@gpg-bridge/core/host/key-use-attempt';
import { UseConfirmation } from '@gpg-bridge/core/host/use-confirmation';
import { UseNotice } from '@gpg-bridge/core/host/use-notice';
import type { LogCallback } from '@gpg-bridge/core/log';

/** How the person at the host is asked about each use of a key by a target. */
export function confirmUses(target: () => string, log: LogCallback): NonNullable<TargetUse['confirm']> {
  return new UseConfirmation({ target, nameOf: hostKeyNames(), log }).confirm;
}

/** How that person is told of each use. */
export function notifyOfUses(target: () => string, log: LogCallback): NonNullable<TargetUse['notify']> {
  return new UseNotice({ target, nameOf: hostKeyNames(), log }).notify;
}

/** Whose the host's private GPG keys are, by their keygrips. */
function hostKeyNames(): (key: string) => Promise<string | undefined> {
  const failed = (why: string, cause?: unknown) =>
    new BridgeError('KEY_EXPORT_FAILED', {
      what: "can't list the host's keys",
      why,
      fix: 'See whether `gpg --list-secret-keys` works.',
      cause,
    });
  const names = new KeyNames(async () => secretKeys(await gpgRunner({}, failed), failed));
  return (key) => names.nameOf(key);
}
