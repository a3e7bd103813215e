import { delimiter, isAbsolute, resolve } from 'node:path';
import { BridgeError } from '@gpg-bridge/core/errors';

/** What the value of a variable is, which says how a relative path in it is resolved. */
type Kind =
  | 'path'
  | 'paths'
  /** Directories of programs. A relative one stays: the working directory must not decide which program runs. */
  | 'programs'
  /** `unix:///run/docker.sock`, `tcp://host:2376`, `ssh://host`. */
  | 'engine'
  /** A socket, or a named pipe on Windows. */
  | 'agent'
  | 'text';

/** What a variable decides. */
type Use =
  /** In which engine the name of a container is looked up. */
  | 'engine'
  /** Where a command of `--exec` leads. */
  | 'exec'
  /** `auto install` gives it to its service. */
  | 'service';

interface Variable {
  kind: Kind;
  uses: readonly Use[];
}

function variable(kind: Kind, ...uses: Use[]): Variable {
  return { kind, uses };
}

/**
 * Every variable of the host's environment that this program reads, or that says where the programs that it runs find
 * engines, clusters, agents and files. A name that ends in `*` stands for all that begin so.
 */
const VARIABLES = {
  // The person, and where files are.
  HOME: variable('path', 'engine', 'exec', 'service'),
  PATH: variable('programs', 'engine', 'service'),
  TMPDIR: variable('path'),
  TMP: variable('path'),
  TEMP: variable('path'),
  XDG_CACHE_HOME: variable('path', 'service'),
  XDG_CONFIG_HOME: variable('path', 'exec', 'service'),
  XDG_DATA_HOME: variable('path', 'service'),
  XDG_RUNTIME_DIR: variable('path', 'engine', 'exec'),
  XDG_STATE_HOME: variable('path', 'service'),
  // Windows has these for each user; programs there find theirs by them.
  APPDATA: variable('path'),
  LOCALAPPDATA: variable('path'),
  USERPROFILE: variable('path'),
  ProgramFiles: variable('path'),
  'ProgramFiles(x86)': variable('path'),
  ProgramW6432: variable('path'),
  SystemRoot: variable('path'),
  USERDOMAIN: variable('text'),

  // This program.
  GPG_BRIDGE_STATE_DIR: variable('path', 'service'),
  GPG_BRIDGE_HOST_KEY_FILE: variable('path'),
  GPG_BRIDGE_HEARTBEAT: variable('text', 'service'),
  GPG_BRIDGE_HOST_KEY: variable('text'),
  GPG_BRIDGE_NODE_EXTRA_CA_CERTS: variable('path'),

  // Agents and keys.
  GNUPGHOME: variable('path', 'service'),
  SSH_AUTH_SOCK: variable('agent', 'service'),
  GIT_CONFIG_GLOBAL: variable('path', 'service'),
  GIT_CONFIG_SYSTEM: variable('path', 'service'),
  GIT_DIR: variable('path'),
  GIT_WORK_TREE: variable('path'),

  // Engines.
  DOCKER_HOST: variable('engine', 'engine', 'exec', 'service'),
  DOCKER_CONTEXT: variable('text', 'engine', 'exec', 'service'),
  DOCKER_CONFIG: variable('path', 'engine', 'exec', 'service'),
  DOCKER_CERT_PATH: variable('path', 'engine', 'service'),
  DOCKER_TLS: variable('text', 'engine', 'service'),
  DOCKER_TLS_VERIFY: variable('text', 'engine', 'service'),
  DOCKER_API_VERSION: variable('text', 'service'),
  CONTAINER_HOST: variable('engine', 'engine', 'exec', 'service'),
  CONTAINER_CONNECTION: variable('text', 'engine', 'exec', 'service'),
  CONTAINER_SSHKEY: variable('path', 'service'),
  CONTAINERS_CONF: variable('path', 'service'),
  CONTAINERS_CONF_OVERRIDE: variable('path', 'service'),
  CONTAINERS_STORAGE_CONF: variable('path', 'service'),

  // Clusters, and what other commands of `--exec` reach.
  KUBECONFIG: variable('paths', 'exec'),
  KUBERNETES_SERVICE_HOST: variable('text'),
  KUBERNETES_SERVICE_PORT: variable('text'),
  AWS_PROFILE: variable('text', 'exec'),
  AWS_REGION: variable('text', 'exec'),
  AWS_DEFAULT_REGION: variable('text', 'exec'),
  AWS_CONFIG_FILE: variable('path'),
  AWS_SHARED_CREDENTIALS_FILE: variable('path'),
  GOOGLE_APPLICATION_CREDENTIALS: variable('path'),
  'CLOUDSDK_*': variable('text', 'exec'),
  'CONTAINERD_*': variable('text', 'exec'),
  'INCUS_*': variable('text', 'exec'),
  'LIBVIRT_*': variable('text', 'exec'),
  'LXD_*': variable('text', 'exec'),
  'NOMAD_*': variable('text', 'exec'),
  'VAGRANT_*': variable('text', 'exec'),

  // Certificates that Node, and programs written in Go, read.
  NODE_EXTRA_CA_CERTS: variable('path', 'service'),
  SSL_CERT_FILE: variable('path', 'service'),
  SSL_CERT_DIR: variable('paths', 'service'),

  // Terminals, and desktops on which a person is asked.
  DISPLAY: variable('text'),
  WAYLAND_DISPLAY: variable('text'),
  XAUTHORITY: variable('path'),
  GPG_TTY: variable('path'),
  LANG: variable('text'),
  LC_ALL: variable('text'),
  LC_CTYPE: variable('text'),
  NO_COLOR: variable('text'),
  TERM: variable('text'),
} as const satisfies Record<string, Variable>;

/** The name of a variable in the list. */
export type VariableName = keyof typeof VARIABLES;

const ENTRIES = Object.entries(VARIABLES) as [name: string, Variable][];

/** Whether the list has a variable. */
export function isListed(name: string): boolean {
  return ENTRIES.some(([pattern]) => matches(pattern, name));
}

/** The names of the variables that decide something. */
export function variablesFor(use: Use): string[] {
  return ENTRIES.flatMap(([name, { uses }]) => (uses.includes(use) ? [name] : []));
}

/** Whether a variable decides where a command of `--exec` leads. */
export function isForExec(name: string): boolean {
  return variablesFor('exec').some((pattern) => matches(pattern, name));
}

function matches(pattern: string, name: string): boolean {
  return pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : name === pattern;
}

/** The same environment with every relative path in it resolved, from the working directory unless another is named. */
export function resolvedEnvironment(env: NodeJS.ProcessEnv, directory?: string): NodeJS.ProcessEnv {
  const resolved = ENTRIES.flatMap(([name, { kind }]) => {
    const value = env[name];
    return value ? [[name, RESOLVERS[kind](value, directory)]] : [];
  });
  return { ...env, ...Object.fromEntries(resolved) };
}

/**
 * Resolves every relative path in this process's environment. A command does so before anything else: what it starts,
 * daemons above all, has another working directory.
 */
export function resolveOwnEnvironment(): void {
  for (const [name, { kind }] of ENTRIES) {
    const value = process.env[name];
    if (!value) continue;
    const resolved = RESOLVERS[kind](value);
    if (resolved !== value) process.env[name] = resolved;
  }
}

const RESOLVERS: Readonly<Record<Kind, (value: string, directory?: string) => string>> = {
  path: absolute,
  // An empty one counts for nothing.
  paths: (value, directory) =>
    value
      .split(delimiter)
      .filter(Boolean)
      .map((path) => absolute(path, directory))
      .join(delimiter),
  programs: (value) => value,
  engine: (value, directory) =>
    value.replace(/^unix:\/\/(?!\/)(.+)$/s, (_, path: string) => `unix://${absolute(path, directory)}`),
  agent: (value, directory) => (value.startsWith('\\\\') ? value : absolute(value, directory)),
  text: (value) => value,
};

/** The working directory is asked for only where it matters: it may have been removed. */
function absolute(path: string, directory?: string): string {
  if (isAbsolute(path)) return path;
  try {
    return directory === undefined ? resolve(path) : resolve(directory, path);
  } catch (cause) {
    throw new BridgeError('USAGE', {
      what: `can't find ${path}, which is named in the environment`,
      why: 'the path is relative, and the working directory is gone',
      fix: 'Run it again in a directory that exists, or name an absolute path.',
      cause,
    });
  }
}

/** What a service gets of a person's environment: the same engines, agents and files. */
export function serviceEnvironment(env: NodeJS.ProcessEnv): Record<string, string> {
  const { PATH, ...resolved } = resolvedEnvironment(env);
  // A service has another working directory, in which a relative one would mean another place.
  const programs = PATH?.split(delimiter).filter(isAbsolute).join(delimiter);
  const given: NodeJS.ProcessEnv = { ...resolved, PATH: programs };
  return Object.fromEntries(
    variablesFor('service').flatMap((name) => (given[name] ? [[name, given[name]]] : [])),
  );
}
