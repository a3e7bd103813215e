import type { Duplex, Readable, Writable } from 'node:stream';
import type { TerminalGate } from './terminal-gate.ts';

/** The engines that are spoken to; both have the same API and nearly the same command line. */
export type EngineKind = 'docker' | 'podman';

/** What there is to know about a container before a bridge is built to it. */
export interface ContainerInfo {
  /** The full id. */
  id: string;
  /** Without the leading slash that the API gives it. */
  name: string;
  /** A paused container counts as running, too. */
  running: boolean;
  /** Who runs its commands unless said otherwise, as its image or its maker wrote it; empty for root. */
  user: string;
}

/** What a rule looks at beside that. Everything here is the word of the engine, and of whoever made the container. */
export interface ContainerDetails extends ContainerInfo {
  /** The ID of its image: 64 hexadecimal digits. */
  image: string;
  /** What the image was called when the container was made; not a proof of anything. */
  imageName: string;
  /** What the container, or its image, is labelled with. */
  labels: ReadonlyMap<string, string>;
  /** When it was started last, in milliseconds since the epoch; undefined if the engine does not tell. */
  startedAt: number | undefined;
}

/** How a process ended. Neither is known when the container or the engine went away under it. */
export interface ExitInfo {
  status: number | null;
  signal: NodeJS.Signals | null;
}

/**
 * A command that runs in a target. `stdout` and `stderr` share one connection: both have to be read, or
 * the one that is not stalls the other.
 */
export interface ExecStream {
  /** Ending it half-closes: the command reads end of file, and its output still arrives. */
  stdin: Writable;
  stdout: Readable;
  stderr: Readable;
  /** Never rejects. */
  exited: Promise<ExitInfo>;
  /** Cuts the connection; the command loses its standard input. Engines have no way to signal it. */
  kill(): void;
}

/** How large a terminal is, in characters. */
export interface TerminalSize {
  rows: number;
  columns: number;
}

/** A command that runs in a target and has a terminal there. */
export interface TerminalStream {
  /** What the terminal shows, and what is typed there. */
  stream: Duplex;
  /** Tells the terminal there a new size; one that can't be told any more does not matter. */
  resize(size: TerminalSize): void;
  /** Never rejects. */
  exited: Promise<ExitInfo>;
}

/** Who runs a command. */
export interface ExecOptions {
  user?: string;
}

/** The same for a command on this process's own streams. */
export interface AttachOptions extends ExecOptions {
  /** With a terminal there, which is joined with the one here. */
  terminal: boolean;
  /** Who may keep it from reading the terminal here. */
  gate?: TerminalGate | undefined;
}

/** The changes of a container's state that a bridge acts on. */
export type ContainerEventAction = 'start' | 'die' | 'destroy' | 'pause' | 'unpause';

/** Something that happened to a container. */
export interface ContainerEvent {
  action: ContainerEventAction;
  /** The full id. */
  id: string;
}

/** Which events to hear about: those of one container (full id), or of all, of these kinds. */
export interface EventFilter {
  container?: string;
  actions: readonly ContainerEventAction[];
}

/** A container engine, reached one way or the other. */
export interface Engine {
  /** Rejects with ENGINE_UNREACHABLE unless the engine answers. */
  ping(): Promise<void>;
  /** Rejects with ENGINE_UNREACHABLE if a configuration was changed so that this would be another engine. */
  checkAddress(): Promise<void>;
  /** A file of a container's that everybody may read, if it is there. */
  readFile(container: string, path: string): Promise<Buffer | undefined>;
  /** Finds a container by name, id or the start of an id. */
  inspectContainer(nameOrId: string): Promise<ContainerInfo>;
  /** Finds a container by its full id, with its image and labels. */
  describeContainer(id: string): Promise<ContainerDetails>;
  /** The labels of an image, by its id. */
  imageLabels(image: string): Promise<ReadonlyMap<string, string>>;
  /** The full ids of the containers that run. */
  containerIds(): Promise<string[]>;
  /** The names of the containers that run. */
  containerNames(): Promise<string[]>;
  /** Starts a command without a terminal in a running container. */
  exec(container: string, argv: readonly string[], options?: ExecOptions): Promise<ExecStream>;
  /** Runs a command on this process's own streams; resolves to how it ended. */
  attach(container: string, argv: readonly string[], options: AttachOptions): Promise<ExitInfo>;
  /**
   * A stream of `ContainerEvent` objects. Whatever happens after the promise resolved is in it: look at
   * the container then, and no change is missed. It ends, without an error, when the engine goes away;
   * destroy it when done.
   */
  events(filter: EventFilter): Promise<Readable>;
}
