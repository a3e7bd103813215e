import { BridgeError } from '@gpg-bridge/core/errors';
import { type LogCallback, noLog } from '@gpg-bridge/core/log';
import { ApiEngine } from './api-engine.ts';
import { type DiscoveryOptions, discoverEndpoint } from './endpoint.ts';
import type { ContainerInfo, Engine, EngineKind, EngineWay } from './engine.ts';

/** Options for `openEngine`. */
export interface OpenEngineOptions extends DiscoveryOptions {
  /** Forces one way. */
  way?: EngineWay;
  log?: LogCallback;
}

/**
 * The engine as the person's own command would find it: over its API where that answers, else through its
 * command. Whether the command's engine answers shows at the first use.
 */
export async function openEngine(kind: EngineKind, options: OpenEngineOptions = {}): Promise<Engine> {
  return (await open(kind, options, (engine) => engine.ping())).engine;
}

/** The engine, found like `openEngine` does, and a container in it: the look at that shows whether the API answers. */
export async function openContainer(
  kind: EngineKind,
  nameOrId: string,
  options: OpenEngineOptions = {},
): Promise<{ engine: Engine; info: ContainerInfo }> {
  const look = (engine: Engine) => engine.inspectContainer(nameOrId);
  const { engine, answer } = await open(kind, options, async (api) => {
    // An error counts if the engine answers at all; it is then the outcome, not a reason for the other way.
    const [outcome] = await Promise.allSettled([look(api)]);
    if (outcome.status === 'rejected' && isUnreachable(outcome.reason)) throw outcome.reason;
    if (outcome.status === 'rejected') await api.ping();
    return outcome;
  });
  if (answer?.status === 'rejected') throw answer.reason;
  return { engine, info: answer?.value ?? (await look(engine)) };
}

/** The way to an engine, with the API's answer to the first question where it is the API. */
async function open<T>(
  kind: EngineKind,
  options: OpenEngineOptions,
  ask: (engine: ApiEngine) => Promise<T>,
): Promise<{ engine: Engine; answer?: T }> {
  const { way, log = noLog } = options;
  const command = async () => {
    const { CommandEngine } = await import('./command-engine.ts'); // seldom needed
    return { engine: new CommandEngine(kind, options.env ? { env: options.env } : {}) };
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
    const answer = await ask(engine);
    log(`${kind}: using the API at ${endpoint.socketPath} (${endpoint.from})`, 'debug');
    return { engine, answer };
  } catch (error) {
    if (way === 'api') throw error;
    log(`${kind}: using its command, since ${endpoint.socketPath} does not answer`, 'debug');
    return command();
  }
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
