import { resolvedEnvironment, type VariableName } from '../environment.ts';

/** Node reads these certificates as it starts, which can take longer than all the rest of its start. */
const CERTIFICATES: VariableName = 'NODE_EXTRA_CA_CERTS';
/** Carries the value to the daemon under a name that Node does not read. */
const KEPT_CERTIFICATES: VariableName = 'GPG_BRIDGE_NODE_EXTRA_CA_CERTS';

/**
 * The environment to start a daemon with. A command has resolved the relative paths in it already; other programs that
 * use the library have not.
 * A daemon speaks TLS to engines alone, whose certificates are files of their own, so it starts without others;
 * `restoreEnvironment` puts them back for what it runs.
 */
export function daemonEnvironment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const { [CERTIFICATES]: certificates, ...rest } = resolvedEnvironment(env);
  return {
    ...rest,
    ...(certificates ? { [KEPT_CERTIFICATES]: certificates } : {}),
  };
}

/** Puts the certificates back into a daemon's environment: the programs that it runs may need them. */
export function restoreEnvironment(env: NodeJS.ProcessEnv): void {
  const certificates = env[KEPT_CERTIFICATES];
  if (certificates === undefined) return;
  env[CERTIFICATES] = certificates;
  delete env[KEPT_CERTIFICATES];
}
