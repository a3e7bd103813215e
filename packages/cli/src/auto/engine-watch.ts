import type { Readable } from 'node:stream';
import { toBridgeError } from '@gpg-bridge/core/errors';
import type { LogCallback } from '@gpg-bridge/core/log';
import type { ContainerEvent, ContainerEventAction, Engine, EngineKind } from '../engine/engine.ts';
import { openEngine } from '../engine/open-engine.ts';
import { backOff } from '../targets/spawn-exec.ts';

/** What a watch tells. */
export interface EngineWatchOptions {
  kind: EngineKind;
  signal: AbortSignal;
  log: LogCallback;
  /** The engine is there, and its events are being read: containers that run already can be looked at. */
  found: (engine: Engine) => Promise<void>;
  happened: (event: ContainerEvent, engine: Engine) => void;
}

/** A container that is continued could not be bridged while it was paused. */
const ACTIONS: readonly ContainerEventAction[] = ['start', 'unpause', 'die'];

/** An engine that was there so long is not one that comes and goes. */
const STEADY_MS = 10_000;
/** Beyond this the pauses do not grow, and are not told any more. */
const TOLD_ATTEMPTS = 7;

/** Reads the events of one engine until it is told to end; one that goes away is looked for again. */
export async function watchEngine({ kind, signal, log, found, happened }: EngineWatchOptions): Promise<void> {
  for (let attempt = 0; !signal.aborted; attempt++) {
    const beganAt = performance.now();
    let reason: string;
    try {
      const { engine, address } = await openEngine(kind);
      const events = await engine.events({ actions: ACTIONS });
      log(`watching ${kind}${address === 'default' ? '' : ` at ${address}`}`, 'info');
      await follow(
        events,
        signal,
        () => found(engine),
        (event) => happened(event, engine),
      );
      reason = `${kind} ended its stream of events`;
      if (performance.now() - beganAt > STEADY_MS) attempt = 0;
    } catch (error) {
      reason = toBridgeError(error, `${kind} can't be watched`).message;
    }
    if (signal.aborted) return;
    const tell = (until: Date) => {
      if (attempt > TOLD_ATTEMPTS) return;
      const seconds = Math.round((until.getTime() - Date.now()) / 100) / 10;
      const every =
        attempt === TOLD_ATTEMPTS
          ? `; looked for every ${seconds} s from now on`
          : `; looked for again in ${seconds} s`;
      log(`${reason}${every}`, 'warn');
    };
    await backOff(attempt, signal, tell).catch(() => {}); // it was told to end
  }
}

/** Resolves when the stream of events has ended. What happens while the running containers are listed is in it. */
async function follow(
  events: Readable,
  signal: AbortSignal,
  begin: () => Promise<void>,
  happened: (event: ContainerEvent) => void,
): Promise<void> {
  const end = () => events.destroy();
  const ended = new Promise<void>((resolve) => events.once('close', resolve));
  events.on('error', () => {}); // `close` follows
  events.on('data', happened);
  signal.addEventListener('abort', end);
  try {
    if (!signal.aborted) await begin();
    if (signal.aborted) end();
    await ended;
  } finally {
    signal.removeEventListener('abort', end);
    end();
  }
}
