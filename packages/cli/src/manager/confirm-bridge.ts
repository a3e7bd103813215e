import type { BridgeOptions } from '../bridge-options.ts';
import type { DaemonStatus, NamedTarget } from '../daemon/control.ts';
import { CONFIRM_TIMEOUT_MS, confirmEnvironment, mayBeConfirmed } from './confirmable.ts';
import { isAsWanted } from './is-usable.ts';
import type { RunningBridges } from './running-bridges.ts';

/**
 * A bridge that is ready and has this name, if its daemon confirms that the name still leads to its target.
 * The daemon does the looking up because it has the code for that loaded already.
 */
export async function confirmBridge(
  running: RunningBridges,
  spec: string | undefined,
  options: BridgeOptions,
): Promise<DaemonStatus | undefined> {
  if (!mayBeConfirmed(spec, options)) return undefined;
  const asked: NamedTarget = { spec, user: options.user, env: confirmEnvironment(), options };
  const [status, another] = await running.askAll('confirm', CONFIRM_TIMEOUT_MS, asked);
  if (!status || another) return undefined;
  return (await isAsWanted(status, options)) ? status : undefined;
}
