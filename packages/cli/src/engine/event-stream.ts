import { type Readable, Transform } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';
import type { ContainerEvent, ContainerEventAction, EngineKind, EventFilter } from './engine.ts';

/** What the engines call an action, each in its API and on its command line. */
const ACTIONS = new Map<string | undefined, ContainerEventAction>([
  ['start', 'start'],
  ['die', 'die'],
  ['died', 'die'],
  ['destroy', 'destroy'],
  ['remove', 'destroy'],
  ['pause', 'pause'],
  ['unpause', 'unpause'],
]);

/** Podman's other names for actions: versions differ in which of the two their filters know. */
const PODMAN_NAMES: Partial<Record<ContainerEventAction, string>> = { die: 'died', destroy: 'remove' };

interface EventDocument {
  Type?: string;
  Action?: string;
  Status?: string;
  Actor?: { ID?: string };
  ID?: string;
}

/** An event has some hundred bytes and its container's labels. */
const MAX_LINE_LENGTH = 1024 * 1024;

/** The names by which an engine's filter knows the actions. */
export function eventNames(kind: EngineKind, { actions }: EventFilter): string[] {
  if (kind === 'docker') return [...actions];
  return actions.flatMap((action) => [action, PODMAN_NAMES[action] ?? action]);
}

/** Reads one event as the API or the command of either engine prints it; undefined for any other. */
export function parseEvent(line: string): ContainerEvent | undefined {
  const { Type, Action, Status, Actor, ID } = parseDocument(line);
  const action = ACTIONS.get(Action ?? Status);
  const id = Actor?.ID ?? ID;
  return Type === 'container' && action && id && typeof id === 'string' ? { action, id } : undefined;
}

function parseDocument(line: string): EventDocument {
  try {
    return (JSON.parse(line) as EventDocument | null) ?? {};
  } catch {
    return {}; // a message for a person, on a command's output
  }
}

function isWanted({ id, action }: ContainerEvent, { container, actions }: EventFilter): boolean {
  return (container === undefined || id === container) && actions.includes(action);
}

/**
 * The events that pass the filter, from an engine's lines of JSON. It ends when the lines end, however
 * that came about; destroying it calls `release`.
 */
export function eventStream(lines: Readable, filter: EventFilter, release: () => void): Readable {
  const decoder = new StringDecoder('utf8');
  let partial = '';
  const events = new Transform({
    readableObjectMode: true,
    transform(chunk: Buffer, _encoding, done) {
      const pieces = (partial + decoder.write(chunk)).split('\n');
      partial = pieces.pop() ?? '';
      for (const line of pieces) {
        const event = parseEvent(line);
        if (event && isWanted(event, filter)) this.push(event);
      }
      if (partial.length > MAX_LINE_LENGTH) lines.destroy();
      done();
    },
    destroy(error, done) {
      release();
      done(error);
    },
  });
  lines.on('error', () => {});
  lines.once('close', () => events.end());
  return lines.pipe(events);
}
