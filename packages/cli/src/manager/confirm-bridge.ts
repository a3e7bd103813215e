import type { BridgeOptions } from '../bridge-options.ts';
import type { DaemonStatus, NamedTarget } from '../daemon/control.ts';
import { CONFIRM_TIMEOUT_MS, confirmEnvironment } from './confirm-environment.ts';
import { isUp, isUsable } from './is-usable.ts';
import type { RunningBridges } from './running-bridges.ts';

/** Targets that depend on nothing else: containers, and local homes by an absolute path. */
const CONFIRMED_KINDS = /^(?:local:\/|docker:|podman:|(?![a-z0-9]+:))/;
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
  return isUp(status) && (await isUsable(status, options)) ? status : undefined;
}

/**
 * Whether a daemon can look a name up as the person would. A relative path, and maybe a command, depends on the working
 * directory, which it does not share; what ssh and kubectl say depends on a person's whole environment.
 */
export function mayBeConfirmed(spec: string | undefined, { exec }: BridgeOptions): spec is string {
  return spec !== undefined && exec === undefined && CONFIRMED_KINDS.test(spec);
}
