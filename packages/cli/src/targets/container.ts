import type { Readable } from 'node:stream';
import { BridgeError } from '@gpg-bridge/core/errors';
import { containerNotRunning } from '../engine/container-errors.ts';
import type { ContainerEvent, ContainerInfo, Engine, EngineKind } from '../engine/engine.ts';
import { openContainer } from '../engine/open-engine.ts';
import type { Target, TargetOptions } from './target.ts';

/** A Docker or Podman container, by name, short or full ID. */
export async function containerTarget(
  kind: EngineKind,
  name: string,
  { user, env }: Pick<TargetOptions, 'user' | 'env'> = {},
): Promise<Target> {
  const { engine, info: found } = await openContainer(
    kind,
    name,
    env ? { env, ...(env.HOME ? { home: env.HOME } : {}) } : {},
  );
  let seen: ContainerInfo | undefined = found;
  const target: Target = {
    kind,
    id: found.id,
    name: kind === 'docker' ? found.name : `${kind}:${found.name}`,
    user: user ?? '',
    shell: `${kind} exec -it ${user ? `-u ${user} ` : ''}${found.name} sh`,
    exec: (argv) => engine.exec(found.id, argv, user === undefined ? {} : { user }),
    async check() {
      // What was found when the target was resolved serves for the first check.
      const { running } = seen ?? (await engine.inspectContainer(found.id));
      seen = undefined;
      if (!running) throw containerNotRunning(kind, found.name, 'it is stopped');
    },
    async watch(gone) {
      const events = await engine.events({ container: found.id, actions: ['die', 'destroy'] });
      events.on('data', ({ action }: ContainerEvent) => gone(`the container got the event ${action}`));
      events.once('close', () => gone('the engine ended its stream of events'));
      events.on('error', () => {}); // `close` follows
      return () => events.removeAllListeners('close').destroy();
    },
    comesBack: (...when) => comesBack(engine, found.id, ...when),
  };
  return target;
}

/** Waits for the container's start, or for the engine if that is what went away. */
async function comesBack(
  engine: Engine,
  id: string,
  attempt: number,
  signal: AbortSignal,
  onPause?: (until: Date) => void,
): Promise<void> {
  const { backOff } = await import('./spawn-exec.ts'); // loaded late: a container that stays up never needs it
  let events: Readable;
  try {
    events = await engine.events({ container: id, actions: ['start', 'unpause', 'destroy'] });
  } catch {
    await backOff(attempt, signal, onPause);
    return;
  }
  const aborted = () => events.destroy();
  signal.addEventListener('abort', aborted);
  try {
    const changed = new Promise<void>((resolve) => {
      events.once('data', () => resolve());
      events.once('close', () => resolve());
      events.on('error', () => {}); // `close` follows
    });
    // Inspected after the subscription, so that no start is missed between the two. A container that runs and
    // could not be attached to is tried again after the back-off; one that was removed never comes back.
    const found = await engine.inspectContainer(id).catch((error: unknown) => {
      if (error instanceof BridgeError && error.code === 'TARGET_NOT_FOUND') throw error;
    });
    if (found?.running) await backOff(attempt, signal, onPause);
    else if (!signal.aborted) await changed;
  } finally {
    signal.removeEventListener('abort', aborted);
    events.destroy();
  }
}
