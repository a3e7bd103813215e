import { BridgeError } from '@gpg-bridge/core/errors';
import { type LogCallback, noLog } from '@gpg-bridge/core/log';
import { ApiEngine } from './api-engine.ts';
import { CommandEngine } from './command-engine.ts';
import { type DiscoveryOptions, discoverEndpoint } from './endpoint.ts';
import type { Engine, EngineKind, EngineWay } from './engine.ts';

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
  const { way, log = noLog } = options;
  const command = () => new CommandEngine(kind, options.env ? { env: options.env } : {});
  if (way === 'command') return command();
  const endpoint = await discoverEndpoint(kind, options);
  if (endpoint.way === 'command') {
    if (way === 'api') throw noApi(kind, endpoint.from);
    log(`${kind}: using its command (${endpoint.from})`, 'debug');
    return command();
  }
  const engine = new ApiEngine(kind, endpoint.socketPath);
  try {
    await engine.ping();
  } catch (error) {
    if (way === 'api') throw error;
    log(`${kind}: using its command, since ${endpoint.socketPath} does not answer`, 'debug');
    return command();
  }
  log(`${kind}: using the API at ${endpoint.socketPath} (${endpoint.from})`, 'debug');
  return engine;
}

function noApi(kind: EngineKind, from: string): BridgeError {
  return new BridgeError('ENGINE_UNREACHABLE', {
    what: `the API of ${kind} can't be used`,
    why: `it has no local Unix socket here: ${from}`,
    fix: 'Use its command instead.',
  });
}
