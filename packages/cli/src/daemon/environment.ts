import { resolve } from 'node:path';

/** Node reads these certificates as it starts, which can take longer than all the rest of its start. */
const CERTIFICATES = 'NODE_EXTRA_CA_CERTS';
/** Where a daemon finds what its environment has to get back. */
const KEPT_CERTIFICATES = 'GPG_BRIDGE_NODE_EXTRA_CA_CERTS';

/**
 * The environment to start a daemon with. A relative GNUPGHOME is meant from where the person stands.
 * A daemon speaks TLS with nobody, so it starts without certificates; `restoreEnvironment` is for what it runs.
 */
export function daemonEnvironment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const { [CERTIFICATES]: certificates, ...rest } = env;
  return {
    ...rest,
    ...(env.GNUPGHOME ? { GNUPGHOME: resolve(env.GNUPGHOME) } : {}),
    ...(certificates ? { [KEPT_CERTIFICATES]: certificates } : {}),
  };
}

/** Gives a daemon's environment back what it was started without: the programs that it runs may need it. */
export function restoreEnvironment(env: NodeJS.ProcessEnv): void {
  const certificates = env[KEPT_CERTIFICATES];
  if (certificates === undefined) return;
  env[CERTIFICATES] = certificates;
  delete env[KEPT_CERTIFICATES];
}
