import { accessSync, constants, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { BridgeError } from '@gpg-bridge/core/errors';
import { canonicalPath } from '@gpg-bridge/core/fs/canonical-path';
import { type ApiAddress, parseApiAddress, readCertificates, type TlsMaterial } from './api-address.ts';
import type { EngineKind } from './engine.ts';

/** How an engine is reached: over its API, or through its own command. */
export type Endpoint = ({ way: 'api'; api: ApiAddress } | { way: 'command' }) & {
  /** Where the engine is: one address for every way of naming it. */
  address: string;
  /** Variables that hold the command to this engine, whatever its configuration says later. */
  pins: NodeJS.ProcessEnv;
};

/** What discovery looks at; a test gives its own. */
export interface DiscoveryOptions {
  env?: NodeJS.ProcessEnv;
  home?: string;
  platform?: NodeJS.Platform;
  /** The well-known sockets of the machine's own engines. */
  systemSockets?: Partial<Record<EngineKind, string>>;
}

const SYSTEM_SOCKETS: Record<EngineKind, string> = {
  docker: '/var/run/docker.sock',
  podman: '/run/podman/podman.sock',
};

/** Where Docker's own engine listens on Windows. */
const WINDOWS_PIPE = 'npipe:////./pipe/docker_engine';

/** The name of Docker's built-in context, which is kept in no file. */
const DEFAULT_CONTEXT = 'default';

interface Surroundings {
  env: NodeJS.ProcessEnv;
  platform: NodeJS.Platform;
  home: string;
  systemSocket: string;
}

/**
 * Finds an engine as its own command would. Unix sockets, TCP with and without TLS and Windows pipes are spoken to
 * directly; ssh is left to the command.
 */
export function discoverEndpoint(kind: EngineKind, options: DiscoveryOptions = {}): Promise<Endpoint> {
  const surroundings: Surroundings = {
    env: options.env ?? process.env,
    platform: options.platform ?? process.platform,
    home: options.home ?? homedir(),
    systemSocket: options.systemSockets?.[kind] ?? SYSTEM_SOCKETS[kind],
  };
  return kind === 'docker' ? discoverDocker(surroundings) : discoverPodman(surroundings);
}

/** The order is the docker command's: DOCKER_HOST, DOCKER_CONTEXT, the current context, the default. */
async function discoverDocker({ env, home, systemSocket, platform }: Surroundings): Promise<Endpoint> {
  const configDir = env.DOCKER_CONFIG || join(home, '.docker');
  if (env.DOCKER_HOST) return endpointOf(env.DOCKER_HOST, {}, () => certificatesOf(env, configDir));
  const context = env.DOCKER_CONTEXT || currentContext(configDir);
  if (context && context !== DEFAULT_CONTEXT) {
    const { host, tls } = await contextEndpoint(configDir, context);
    return endpointOf(host, { DOCKER_CONTEXT: context }, tls);
  }
  const pins = { DOCKER_CONTEXT: DEFAULT_CONTEXT };
  // Whether a pipe is there can't be asked without taking the place of a client.
  if (platform === 'win32') return endpointOf(WINDOWS_PIPE, pins);
  return firstUsable([systemSocket, inRuntimeDir(env, 'docker.sock')], pins);
}

/** The order is the podman command's. */
async function discoverPodman({ env, systemSocket, platform }: Surroundings): Promise<Endpoint> {
  if (env.CONTAINER_HOST) return endpointOf(env.CONTAINER_HOST, {});
  // Only Linux has containers of its own; elsewhere podman means its default connection.
  if (env.CONTAINER_CONNECTION || platform !== 'linux') {
    const { podmanConnection } = await import('./podman-connection.ts'); // seldom needed
    const connection = await podmanConnection(env, env.CONTAINER_CONNECTION);
    if (connection) return endpointOf(connection.uri, { CONTAINER_CONNECTION: connection.name });
  }
  // Podman works without a service: its command then uses the store itself.
  return firstUsable([inRuntimeDir(env, 'podman/podman.sock'), systemSocket], {});
}

function endpointOf(
  host: string,
  pins: NodeJS.ProcessEnv,
  certificates: () => TlsMaterial | undefined = () => undefined,
): Endpoint {
  // Only TCP has use for certificates.
  const api = parseApiAddress(host, host.startsWith('tcp:') ? certificates() : undefined);
  const address = { address: api?.kind === 'socket' ? socketAddress(api.path) : host, pins };
  return api ? { way: 'api', api, ...address } : { way: 'command', ...address };
}

/** The certificates that go with DOCKER_HOST, as the docker command has it; undefined for a plain connection. */
function certificatesOf(env: NodeJS.ProcessEnv, configDir: string): TlsMaterial | undefined {
  const verify = Boolean(env.DOCKER_TLS_VERIFY);
  if (!verify && !env.DOCKER_TLS) return undefined;
  return readCertificates(env.DOCKER_CERT_PATH || configDir, verify) ?? { verify };
}

function firstUsable(candidates: readonly (string | undefined)[], pins: NodeJS.ProcessEnv): Endpoint {
  for (const socketPath of candidates) {
    if (socketPath && isUsable(socketPath)) {
      return {
        way: 'api',
        api: { kind: 'socket', path: socketPath },
        address: socketAddress(socketPath),
        pins,
      };
    }
  }
  return { way: 'command', address: 'default', pins };
}

/** The same for every path that leads there: `/var/run` is a link to `/run`, a context may name the link's end. */
function socketAddress(path: string): string {
  return `unix://${canonicalPath(path)}`;
}

function isUsable(path: string): boolean {
  try {
    accessSync(path, constants.R_OK | constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

function inRuntimeDir(env: NodeJS.ProcessEnv, name: string): string | undefined {
  return env.XDG_RUNTIME_DIR ? join(env.XDG_RUNTIME_DIR, name) : undefined;
}

function currentContext(configDir: string): string | undefined {
  const path = join(configDir, 'config.json');
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
  const { currentContext: name } = parseObject(text, path) as { currentContext?: unknown };
  return typeof name === 'string' ? name : undefined;
}

/** A context is kept in a directory named by the SHA-256 of its name, its certificates in another one. */
async function contextEndpoint(
  configDir: string,
  context: string,
): Promise<{ host: string; tls: () => TlsMaterial | undefined }> {
  // Loaded late: it takes long, and only those who use contexts need it.
  const { createHash } = await import('node:crypto');
  const digest = createHash('sha256').update(context).digest('hex');
  const path = join(configDir, 'contexts', 'meta', digest, 'meta.json');
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (cause) {
    throw contextError(`docker context ${JSON.stringify(context)} not found`, `there is no ${path}`, cause);
  }
  const meta = parseObject(text, path) as {
    Endpoints?: { docker?: { Host?: unknown; SkipTLSVerify?: unknown } };
  };
  const { Host: host, SkipTLSVerify: isUnchecked } = meta.Endpoints?.docker ?? {};
  if (typeof host === 'string' && host) {
    const directory = join(configDir, 'contexts', 'tls', digest, 'docker');
    const tls = () =>
      readCertificates(directory, isUnchecked !== true) ??
      (isUnchecked === true ? { verify: false } : undefined);
    return { host, tls };
  }
  throw contextError(
    `docker context ${JSON.stringify(context)} is of no use`,
    `${path} names no docker host`,
  );
}

function parseObject(text: string, path: string): object {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null) return value;
    throw new SyntaxError('it is no JSON object');
  } catch (cause) {
    throw contextError(`${path} can't be read`, (cause as Error).message, cause);
  }
}

function contextError(what: string, why: string, cause?: unknown): BridgeError {
  return new BridgeError('ENGINE_UNREACHABLE', {
    what,
    why,
    fix: 'See `docker context ls`, and choose one with `docker context use` or DOCKER_HOST.',
    ...(cause === undefined ? {} : { cause }),
  });
}
