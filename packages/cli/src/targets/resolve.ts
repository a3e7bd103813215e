import { nearest } from '@gpg-bridge/core/text/nearest';
import { refuseUser, type Target, type TargetOptions, wrongTarget } from './target.ts';

type Resolver = (name: string, options: TargetOptions) => Promise<Target>;

/** Each kind of target, loaded when it is named. */
const KINDS: Readonly<Record<string, Resolver>> = {
  docker: async (name, options) => (await import('./container.ts')).containerTarget('docker', name, options),
  podman: async (name, options) => (await import('./container.ts')).containerTarget('podman', name, options),
  ssh: async (name, options) => (await import('./ssh.ts')).sshTarget(name, options),
  k8s: async (name, options) => {
    refuseUser('k8s', options.user);
    return (await import('./kubernetes.ts')).k8sTarget(name, options);
  },
  wsl: async (name, options) => (await import('./spawned-targets.ts')).wslTarget(name, options.user),
  local: async (name, options) => (await import('./spawned-targets.ts')).localTarget(name, options),
};

/** What a running bridge is known by when its target can't be looked up: the name, and where it is looked up. */
export interface LocatedName {
  kind: string;
  /** The target's name, or for a pod without a container what stands before that. */
  name: string;
  place: string;
}

/** The same for what a person named, without asking an engine or a cluster; undefined for kinds that ask neither. */
export async function locateTarget(
  spec: string | undefined,
  { env = process.env, exec }: Pick<TargetOptions, 'env' | 'exec'> = {},
): Promise<LocatedName | undefined> {
  if (exec !== undefined) {
    return { kind: 'exec', name: exec, place: (await import('./spawned-targets.ts')).execPlace(exec, env) };
  }
  const { kind, name } = splitSpec(spec ?? '');
  if (kind === 'docker' || kind === 'podman') {
    const { discoverEndpoint } = await import('../engine/endpoint.ts');
    const { address } = await discoverEndpoint(kind, { env });
    return { kind, name: kind === 'docker' ? name : `${kind}:${name}`, place: address };
  }
  if (kind === 'k8s') return { kind, ...(await (await import('./kubernetes.ts')).locatePod(name, env)) };
  return undefined;
}

function splitSpec(spec: string): { kind: string; name: string } {
  const [, kind = 'docker', name = ''] = /^(?:([a-z0-9]+):)?(.*)$/s.exec(spec) ?? [];
  return { kind, name };
}

/** The target that a person named; rejects if it is not there or does not run. */
export async function resolveTarget(spec: string | undefined, options: TargetOptions = {}): Promise<Target> {
  if (options.exec !== undefined) {
    if (spec !== undefined)
      throw wrongTarget('--exec stands in place of a target', 'Leave one of the two out.');
    return (await import('./spawned-targets.ts')).execTarget(options.exec, options);
  }
  if (!spec) throw wrongTarget('none is named', 'Name one, for example `gpg-bridge up my-container`.');
  const { kind, name } = splitSpec(spec);
  const resolver = Object.hasOwn(KINDS, kind) ? KINDS[kind] : undefined;
  if (!resolver) {
    const meant = nearest(kind, Object.keys(KINDS));
    const question = meant ? `Did you mean ${meant}:${name}? ` : '';
    throw wrongTarget(
      `there is no kind '${kind}'`,
      `${question}Use one of ${Object.keys(KINDS).join(', ')}.`,
    );
  }
  // A name is an argument of other programs: one that looks like an option must not become one.
  if (!name || name.startsWith('-')) throw wrongTarget(`'${spec}' names nothing`, 'See `gpg-bridge --help`.');
  return resolver(name, options);
}
