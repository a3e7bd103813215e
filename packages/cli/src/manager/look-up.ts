import { BridgeError } from '@gpg-bridge/core/errors';
import type { BridgeSelector } from '../bridge-options.ts';
import type { DaemonStatus } from '../daemon/control.ts';
import { type LocatedName, locateTarget, resolveTarget } from '../targets/resolve.ts';
import { bridgeKey, type Target } from '../targets/target.ts';

/** An engine or a cluster that does not answer must not keep a person from ending a bridge. */
const LOOK_UP_TIMEOUT_MS = 5_000;

/** The target; undefined if it does not exist, or its engine or cluster can't be reached. */
export async function resolveKnown(
  spec: string | undefined,
  selector: BridgeSelector,
): Promise<Target | undefined> {
  let late: NodeJS.Timeout | undefined;
  const patience = new Promise<undefined>((resolve) => {
    late = setTimeout(() => resolve(undefined), LOOK_UP_TIMEOUT_MS);
  });
  return Promise.race([orUnknown(() => resolveTarget(spec, selector)), patience]).finally(() =>
    clearTimeout(late),
  );
}

/** What a running bridge is known by where its target can't be looked up; undefined if that is not known either. */
export function locateKnown(
  spec: string | undefined,
  { exec }: BridgeSelector,
): Promise<LocatedName | undefined> {
  return orUnknown(() => locateTarget(spec, { exec }));
}

async function orUnknown<T>(look: () => Promise<T>): Promise<T | undefined> {
  try {
    return await look();
  } catch (error) {
    if (error instanceof BridgeError && error.exitStatus === 3) return undefined;
    throw error;
  }
}

/** Whether a bridge goes to this target, whoever its user is. */
export function isSameTarget({ key }: DaemonStatus, target: Target): boolean {
  const withoutUser = (text: string) => text.slice(0, text.lastIndexOf('\n'));
  return withoutUser(key) === withoutUser(bridgeKey(target));
}
