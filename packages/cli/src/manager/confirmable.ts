import type { BridgeOptions } from '../bridge-options.ts';

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
export const CONFIRM_TIMEOUT_MS = 2_000;

/** What a daemon has to know of this environment to look a name up as this process would; with these variables, too. */
export function confirmEnvironment(more: readonly string[] = []): Record<string, string> {
  return Object.fromEntries([...ENGINE_VARIABLES, ...more].map((name) => [name, process.env[name] ?? '']));
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
