import { BridgeError } from '@gpg-bridge/core/errors';
import { printable } from '@gpg-bridge/core/text/escape';
import { nearest } from '@gpg-bridge/core/text/nearest';
import { ApiEngine } from './api-engine.ts';
import { containerNotFound } from './container-errors.ts';
import { type DiscoveryOptions, discoverEndpoint, type Endpoint } from './endpoint.ts';
import type { ContainerInfo, Engine, EngineKind } from './engine.ts';

/** An engine that is there. */
export interface OpenedEngine {
  engine: Engine;
  /** Where it is. */
  address: string;
}

/** A container, and the engine that it is in. */
export interface OpenedContainer extends OpenedEngine {
  info: ContainerInfo;
}

/** The engine that the person's own command would use; rejects with ENGINE_UNREACHABLE unless it answers. */
export async function openEngine(kind: EngineKind, options: DiscoveryOptions = {}): Promise<OpenedEngine> {
  const { engine, address } = await reach(kind, options, (candidate) => candidate.ping());
  return { engine, address };
}

/** Finds a container in the engine that the person's own command would use. */
export async function openContainer(
  kind: EngineKind,
  nameOrId: string,
  options: DiscoveryOptions = {},
): Promise<OpenedContainer> {
  const { engine, address, answer } = await reach(
    kind,
    options,
    (candidate) => candidate.inspectContainer(nameOrId),
    (error, candidate) => withLikeName(error, candidate, kind, nameOrId),
  );
  return { engine, info: answer, address };
}

/**
 * Asks an engine something: over the API if that answers, else through the command. `explain` makes what is said of an
 * error of the engine that was found.
 */
async function reach<Answer>(
  kind: EngineKind,
  options: DiscoveryOptions,
  ask: (engine: Engine) => Promise<Answer>,
  explain: (error: unknown, engine: Engine) => Promise<unknown> = async (error) => error,
): Promise<OpenedEngine & { answer: Answer }> {
  const endpoint = await discoverEndpoint(kind, options);
  const { address } = endpoint;
  let apiError: unknown;
  if (endpoint.way === 'api') {
    const engine = new ApiEngine(kind, endpoint.api);
    try {
      return { engine, address, answer: await ask(engine) };
    } catch (error) {
      // An engine that answers at all is the right one, whatever it says.
      if (!isUnreachable(error) && (await answers(engine))) throw await explain(error, engine);
      apiError = error;
    }
  }
  const engine = await commandEngine(kind, endpoint, options);
  try {
    return { engine, address, answer: await ask(engine) };
  } catch (error) {
    // Where there is no command, why the API was of no use is what helps.
    if (apiError !== undefined && isMissingCommand(error)) throw apiError;
    throw await explain(error, engine);
  }
}

function isMissingCommand(error: unknown): boolean {
  return isUnreachable(error) && ((error as BridgeError).cause as NodeJS.ErrnoException)?.code === 'ENOENT';
}

async function commandEngine(
  kind: EngineKind,
  { address, pins }: Endpoint,
  options: DiscoveryOptions,
): Promise<Engine> {
  const { CommandEngine } = await import('./command-engine.ts'); // seldom needed
  const env = { ...(options.env ?? process.env), ...pins };
  const isStill = async () => (await discoverEndpoint(kind, { ...options, env })).address === address;
  return new CommandEngine(kind, { env, isStill });
}

/** For a name that no container has, the one that may be meant. */
async function withLikeName(
  error: unknown,
  engine: Engine,
  kind: EngineKind,
  name: string,
): Promise<unknown> {
  if (!(error instanceof BridgeError) || error.code !== 'TARGET_NOT_FOUND') return error;
  const meant = nearest(name, await engine.containerNames().catch(() => []));
  return meant === undefined ? error : containerNotFound(kind, name, error.why, printable(meant));
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
