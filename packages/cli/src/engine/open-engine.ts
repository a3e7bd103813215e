import { BridgeError } from '@gpg-bridge/core/errors';
import { type LogCallback, noLog } from '@gpg-bridge/core/log';
import { ApiEngine } from './api-engine.ts';
import { type DiscoveryOptions, discoverEndpoint } from './endpoint.ts';
import type { ContainerInfo, Engine, EngineKind, EngineWay } from './engine.ts';

/** Options for `openContainer`. */
export interface OpenEngineOptions extends DiscoveryOptions {
  /** Forces one way. */
  way?: EngineWay;
  log?: LogCallback;
}

/** A container, and the engine that it is in. */
export interface OpenedContainer {
  engine: Engine;
  info: ContainerInfo;
}

/**
 * A container in the engine that the person's own command would find: over the API where that answers,
 * which the look at the container shows, else through the command.
 */
export async function openContainer(
  kind: EngineKind,
  nameOrId: string,
  options: OpenEngineOptions = {},
): Promise<OpenedContainer> {
  const { way, log = noLog } = options;
  const command = async (): Promise<OpenedContainer> => {
    const { CommandEngine } = await import('./command-engine.ts'); // seldom needed
    const engine = new CommandEngine(kind, options.env ? { env: options.env } : {});
    return { engine, info: await engine.inspectContainer(nameOrId) };
  };
  if (way === 'command') return command();
  const endpoint = await discoverEndpoint(kind, options);
  if (endpoint.way === 'command') {
    if (way === 'api') throw noApi(kind, endpoint.from);
    log(`${kind}: using its command (${endpoint.from})`, 'debug');
    return command();
  }
  const engine = new ApiEngine(kind, endpoint.socketPath);
  try {
    const info = await engine.inspectContainer(nameOrId);
    log(`${kind}: using the API at ${endpoint.socketPath} (${endpoint.from})`, 'debug');
    return { engine, info };
  } catch (error) {
    // An engine that answers at all is the right one, whatever it says of the container.
    if (way === 'api' || (!isUnreachable(error) && (await answers(engine)))) throw error;
    log(`${kind}: using its command, since ${endpoint.socketPath} does not answer`, 'debug');
    return command();
  }
}

function answers(engine: ApiEngine): Promise<boolean> {
  return engine.ping().then(
    () => true,
    () => false,
  );
}

function isUnreachable(error: unknown): boolean {
  return error instanceof BridgeError && error.code === 'ENGINE_UNREACHABLE';
}

function noApi(kind: EngineKind, from: string): BridgeError {
  return new BridgeError('ENGINE_UNREACHABLE', {
    what: `the API of ${kind} can't be used`,
    why: `it has no local Unix socket here: ${from}`,
    fix: 'Use its command instead.',
  });
}
