import { resolve } from 'node:path';

/** Node reads these certificates as it starts, which can take longer than all the rest of its start. */
const CERTIFICATES = 'NODE_EXTRA_CA_CERTS';
/** Carries the value to the daemon under a name that Node does not read. */
const KEPT_CERTIFICATES = 'GPG_BRIDGE_NODE_EXTRA_CA_CERTS';

/**
 * The environment to start a daemon with. A relative GNUPGHOME is relative to the person's working directory.
 * A daemon speaks no TLS, so it starts without certificates; `restoreEnvironment` puts them back for what it runs.
 */
export function daemonEnvironment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const { [CERTIFICATES]: certificates, ...rest } = env;
  return {
    ...rest,
    ...(env.GNUPGHOME ? { GNUPGHOME: resolve(env.GNUPGHOME) } : {}),
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
