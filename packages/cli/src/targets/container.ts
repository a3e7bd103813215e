import type { Readable } from 'node:stream';
import { BridgeError } from '@gpg-bridge/core/errors';
import type { LogCallback } from '@gpg-bridge/core/log';
import { containerNotFound, containerNotRunning } from '../engine/container-errors.ts';
import type { ContainerEvent, ContainerInfo, Engine, EngineKind } from '../engine/engine.ts';
import { openContainer } from '../engine/open-engine.ts';
import { userWord } from '../grants/restrictions.ts';
import { pasteable } from './shell-quote.ts';
import type { Target, TargetOptions } from './target.ts';

/** What a container is followed by when it was removed and made again. */
interface Following {
  kind: EngineKind;
  engine: Engine;
  address: string;
  user: string | undefined;
  /** By the name that the person gave, or by the ID. */
  byName: boolean;
}

/** A Docker or Podman container, by name, short or full ID. */
export async function containerTarget(
  kind: EngineKind,
  name: string,
  { user, env, byName }: Pick<TargetOptions, 'user' | 'env' | 'byName'> = {},
): Promise<Target> {
  const { engine, info, address } = await openContainer(
    kind,
    name,
    // Windows' own variable for the home is another one, which nobody sets.
    env ? { env, ...(env.HOME && process.platform !== 'win32' ? { home: env.HOME } : {}) } : {},
  );
  return foundTarget({ kind, engine, address, user, byName: byName ?? name === info.name }, info);
}

async function foundTarget(following: Following, found: ContainerInfo): Promise<Target> {
  const { kind, engine, address, user, byName } = following;
  let seen: ContainerInfo | undefined = found;
  const shell = [kind, 'exec', '-it', ...(user ? ['-u', user] : []), found.name, 'sh'];
  const target: Target = {
    kind,
    id: found.id,
    name: kind === 'docker' ? found.name : `${kind}:${found.name}`,
    place: address,
    user: await userId(engine, found, user),
    userWord: userWord(user ?? found.user),
    byName,
    shell: pasteable(shell),
    exec: (argv) => engine.exec(found.id, argv, user === undefined ? {} : { user }),
    attach: (argv, terminal, gate) =>
      engine.attach(found.id, argv, { terminal, gate, ...(user === undefined ? {} : { user }) }),
    async check() {
      // What was found when the target was resolved serves for the first check.
      const { running } = seen ?? (await engine.inspectContainer(found.id));
      seen = undefined;
      if (!running) throw containerNotRunning(kind, found.name, 'it is stopped');
    },
    watch: (gone, log) => watchContainer(engine, found, gone, log),
    async latest() {
      await engine.checkAddress();
      if (!byName) return undefined;
      const named = await inspectNamed(engine, found.name);
      if (!named) throw containerNotFound(kind, found.name, 'no container has this name now');
      return named.id === found.id ? undefined : foundTarget(following, named);
    },
    comesBack: (...when) => comesBack(engine, found, byName, ...when),
  };
  return target;
}

/**
 * Watches the events of a container. A stream of them that ends while the container runs is replaced by another one:
 * the command that reads it may have been killed, or the line to the engine been cut.
 */
async function watchContainer(
  engine: Engine,
  { id, name }: ContainerInfo,
  gone: (why: string) => void,
  log: LogCallback,
): Promise<() => void> {
  const watching = new AbortController();
  let events: Readable;
  let losses = 0;
  const subscribe = async () => {
    events = await engine.events({ container: id, actions: ['die', 'destroy'] });
    events.on('data', ({ action }: ContainerEvent) => gone(`the container got the event ${action}`));
    events.once('close', () => void replace());
    events.on('error', () => {}); // `close` follows
    if (watching.signal.aborted) events.destroy();
  };
  const replace = async () => {
    try {
      if (losses > 0) await (await import('./spawn-exec.ts')).backOff(losses - 1, watching.signal);
      if (watching.signal.aborted) return;
      losses++;
      await subscribe();
      // Inspected after the subscription, so that no end is missed between the two.
      const { running } = await engine.inspectContainer(id);
      if (watching.signal.aborted) return;
      if (running) log(`lost the events of the engine; ${name} still runs, and is watched again`, 'warn');
      else gone('the container stopped while the events of the engine were lost');
    } catch {
      if (!watching.signal.aborted) gone('the engine ended its stream of events');
    }
  };
  await subscribe();
  return () => {
    watching.abort();
    events.destroy();
  };
}

/** The container of this name; undefined if there is none. An ID that begins with the name is another one's. */
async function inspectNamed(engine: Engine, name: string): Promise<ContainerInfo | undefined> {
  const found = await engine.inspectContainer(name).catch((error: unknown) => {
    if (error instanceof BridgeError && error.code === 'TARGET_NOT_FOUND') return undefined;
    throw error;
  });
  return found?.name === name ? found : undefined;
}

/** The number of the user who runs a container's commands; the word itself if the container does not know it. */
async function userId(engine: Engine, info: ContainerInfo, said: string | undefined): Promise<string> {
  // A group behind the user changes neither the home nor who owns the sockets.
  const [user = ''] = (said ?? info.user).split(':');
  if (user === '' || user === 'root') return '0';
  if (/^\d+$/.test(user)) return String(Number(user));
  const passwd = await engine.readFile(info.id, '/etc/passwd').catch(() => undefined);
  const entries = (passwd?.toString('latin1') ?? '').split('\n').map((line) => line.split(':'));
  const uid = entries.find(([name]) => name === user)?.[2];
  return uid !== undefined && /^\d+$/.test(uid) ? String(Number(uid)) : user;
}

/** Waits for the container's start, or for the engine if that is what went away. */
async function comesBack(
  engine: Engine,
  { id, name }: ContainerInfo,
  byName: boolean,
  attempt: number,
  signal: AbortSignal,
  onPause?: (until: Date) => void,
): Promise<void> {
  const { backOff } = await import('./spawn-exec.ts'); // loaded late: a container that stays up never needs it
  let events: Readable;
  try {
    // A container that is made again under its name has another ID.
    const filter = byName ? {} : { container: id };
    events = await engine.events({ ...filter, actions: ['start', 'unpause', 'destroy'] });
  } catch {
    await backOff(attempt, signal, onPause);
    return;
  }
  const aborted = () => events.destroy();
  signal.addEventListener('abort', aborted);
  let changed = () => {};
  let isOver = false;
  events.on('data', () => changed());
  events.on('error', () => {}); // `close` follows
  events.once('close', () => {
    isOver = true;
    changed();
  });
  try {
    for (let isFirst = true; ; isFirst = false) {
      const change = new Promise<void>((resolve) => {
        changed = resolve;
      });
      // Inspected after the subscription, so that no start is missed between the two. A container that runs and
      // could not be attached to is tried again after the back-off; one that was removed comes back by its name only.
      const found = await (byName ? inspectNamed(engine, name) : engine.inspectContainer(id)).catch(
        (error: unknown) => {
          if (error instanceof BridgeError && error.code === 'TARGET_NOT_FOUND') throw error;
          return undefined;
        },
      );
      // One that flaps starts again and again: it is given longer each time to stay.
      if (found?.running && (isFirst || attempt > 0)) return await backOff(attempt, signal, onPause);
      if (found?.running || isOver || signal.aborted) return;
      await change;
    }
  } finally {
    signal.removeEventListener('abort', aborted);
    events.destroy();
  }
}
