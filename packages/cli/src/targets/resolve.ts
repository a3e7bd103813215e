import { type Target, type TargetOptions, wrongTarget } from './target.ts';

type Resolver = (name: string, options: TargetOptions) => Promise<Target>;

/** Each kind of target, loaded when it is named. */
const KINDS: Readonly<Record<string, Resolver>> = {
  docker: async (name, options) => (await import('./container.ts')).containerTarget('docker', name, options),
  podman: async (name, options) => (await import('./container.ts')).containerTarget('podman', name, options),
  ssh: async (name, options) => (await import('./spawned-targets.ts')).sshTarget(name, options.user),
  k8s: async (name, options) => (await import('./spawned-targets.ts')).k8sTarget(name, options.user),
  wsl: async (name, options) => (await import('./spawned-targets.ts')).wslTarget(name, options.user),
  local: async (name, options) => (await import('./spawned-targets.ts')).localTarget(name, options.user),
};

/** The target that a person named; rejects if it is not there or does not run. */
export async function resolveTarget(spec: string | undefined, options: TargetOptions = {}): Promise<Target> {
  if (options.exec !== undefined) {
    if (spec !== undefined)
      throw wrongTarget('--exec stands in place of a target', 'Leave one of the two out.');
    return (await import('./spawned-targets.ts')).execTarget(options.exec, options.user);
  }
  if (!spec) throw wrongTarget('none is named', 'Name one, for example `gpg-bridge up my-container`.');
  const [, kind = 'docker', name = ''] = /^(?:([a-z0-9]+):)?(.*)$/s.exec(spec) ?? [];
  const resolver = Object.hasOwn(KINDS, kind) ? KINDS[kind] : undefined;
  if (!resolver) {
    throw wrongTarget(`there is no kind '${kind}'`, `Use one of ${Object.keys(KINDS).join(', ')}.`);
  }
  // A name is an argument of other programs: one that looks like an option must not become one.
  if (!name || name.startsWith('-')) throw wrongTarget(`'${spec}' names nothing`, 'See `gpg-bridge --help`.');
  return resolver(name, options);
}
