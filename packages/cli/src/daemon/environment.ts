import { delimiter, resolve } from 'node:path';

/** Node reads these certificates as it starts, which can take longer than all the rest of its start. */
const CERTIFICATES = 'NODE_EXTRA_CA_CERTS';
/** Carries the value to the daemon under a name that Node does not read. */
const KEPT_CERTIFICATES = 'GPG_BRIDGE_NODE_EXTRA_CA_CERTS';

/** Paths that may be relative, and then are meant from the person's working directory. */
const PATHS = ['GNUPGHOME', 'KUBECONFIG', 'DOCKER_CONFIG', 'DOCKER_CERT_PATH'] as const;

/**
 * The environment to start a daemon with. Relative paths in it are relative to the person's working directory.
 * A daemon speaks TLS to engines alone, whose certificates are files of their own, so it starts without others;
 * `restoreEnvironment` puts them back for what it runs.
 */
export function daemonEnvironment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const { [CERTIFICATES]: certificates, ...rest } = env;
  return {
    ...rest,
    ...Object.fromEntries(PATHS.flatMap((name) => (env[name] ? [[name, absolute(name, env[name])]] : []))),
    ...(certificates ? { [KEPT_CERTIFICATES]: certificates } : {}),
  };
}

/** KUBECONFIG may be several paths, of which an empty one counts for nothing. */
function absolute(name: string, value: string): string {
  if (name !== 'KUBECONFIG') return resolve(value);
  const paths = value.split(delimiter).filter(Boolean);
  return paths.map((path) => resolve(path)).join(delimiter);
}

/** Puts the certificates back into a daemon's environment: the programs that it runs may need them. */
export function restoreEnvironment(env: NodeJS.ProcessEnv): void {
  const certificates = env[KEPT_CERTIFICATES];
  if (certificates === undefined) return;
  env[CERTIFICATES] = certificates;
  delete env[KEPT_CERTIFICATES];
}
