import type { BridgeOptions } from '../bridge-options.ts';
import { type VariableName, variablesFor } from '../environment.ts';

/** Targets that depend on nothing else: containers, and local homes by an absolute path. */
const CONFIRMED_KINDS = /^(?:local:\/|docker:|podman:|(?![a-z0-9]+:))/;
/** After this the target is resolved here instead, however long a slow engine takes. */
export const CONFIRM_TIMEOUT_MS = 2_000;

/**
 * What a daemon has to know of this environment to look a name up as this process would, and these variables. An unset
 * one counts as empty.
 */
export function confirmEnvironment(more: readonly VariableName[] = []): Record<string, string> {
  return Object.fromEntries(
    [...variablesFor('engine'), ...more].map((name) => [name, process.env[name] ?? '']),
  );
}

/**
 * Whether a daemon can look a name up as the person would. A relative path, and maybe a command, depends on the working
 * directory, which it does not share; what ssh and kubectl say depends on a person's whole environment.
 */
export function mayBeConfirmed(
  spec: string | undefined,
  { exec }: Pick<BridgeOptions, 'exec'> = {},
): spec is string {
  return spec !== undefined && exec === undefined && CONFIRMED_KINDS.test(spec);
}
