import type { BridgeOptions } from '../bridge-options.ts';
import type { DaemonStatus, NamedTarget } from '../daemon/control.ts';
import { isUp, isUsable } from './is-usable.ts';
import type { RunningBridges } from './running-bridges.ts';

/** The variables that decide in which engine a name is looked up; an unset one counts as empty. */
const ENGINE_VARIABLES = [
  'DOCKER_HOST',
  'DOCKER_CONTEXT',
  'DOCKER_CONFIG',
  'DOCKER_TLS',
  'DOCKER_TLS_VERIFY',
  'DOCKER_CERT_PATH',
  'CONTAINER_HOST',
  'CONTAINER_CONNECTION',
  'XDG_RUNTIME_DIR',
  'HOME',
  'PATH',
] as const;
/** Targets that depend on nothing else: containers, and local homes by an absolute path. */
const CONFIRMED_KINDS = /^(?:local:\/|docker:|podman:|(?![a-z0-9]+:))/;
/** After this the target is resolved here instead, however long a slow engine takes. */
const CONFIRM_TIMEOUT_MS = 2_000;

/**
 * A bridge that is ready and has this name, if its daemon confirms that the name still leads to its target.
 * The daemon does the looking up because it has the code for that loaded already.
 */
export async function confirmBridge(
  running: RunningBridges,
  spec: string | undefined,
  options: BridgeOptions,
): Promise<DaemonStatus | undefined> {
  // A relative path, and maybe a command, depends on the working directory, which the daemon does not share; what
  // ssh and kubectl say depends on a person's whole environment.
  if (spec === undefined || options.exec !== undefined || !CONFIRMED_KINDS.test(spec)) return undefined;
  const env = Object.fromEntries(ENGINE_VARIABLES.map((name) => [name, process.env[name] ?? '']));
  const asked: NamedTarget = { spec, user: options.user, env, options };
  const [status, another] = await running.askAll('confirm', CONFIRM_TIMEOUT_MS, asked);
  if (!status || another) return undefined;
  return isUp(status) && (await isUsable(status, options)) ? status : undefined;
}
