/** Every process of a bridge. */
export const PROCESSES = {
  client: 'the client (gpg, git)',
  server: 'the socket server in the target',
  exec: 'what carries the bytes into the target (ssh, docker exec, kubectl)',
  daemon: 'the daemon on the host',
  agent: "the host's gpg-agent",
  engine: 'the container engine',
  'request-host': 'VS Code’s extension host in the remote',
  'agent-host': 'VS Code’s extension host on your machine',
} as const;
export type ProcessName = keyof typeof PROCESSES;

/** What happens to it. */
export const FAULTS = {
  killed: 'it is killed',
  stopped: 'it stands still for a few seconds, and goes on',
  frozen: 'it stands still for longer than a line may be silent, which is nine seconds',
} as const;
export type Fault = keyof typeof FAULTS;

/** How far one client's session has come. */
export const PHASES = {
  connecting: 'it has connected, and the agent has said nothing yet',
  greeting: 'half of the agent’s greeting is written',
  idle: 'it has been greeted, and asks nothing',
  command: 'a signature is asked for, and the agent has not answered',
  inquiry: 'the agent has asked back, and waits for the client',
  response: 'half of a signature is written',
  closing: 'the client has said BYE, and the agent has not answered',
} as const;
export type Phase = keyof typeof PHASES;

/** What becomes of the client in that phase, in a word and in a sentence. */
export const OUTCOMES = {
  itself: 'It is the client itself. Nobody else notices.',
  error:
    'It gets an error at once or with its next command, or within ten seconds if a process stands still. Run it again.',
  late: 'It gets an error once that goes on: nobody else could tell it.',
  served: 'It notices nothing: it gets the right answer from the agent that is started anew.',
  waits: 'It waits, and gets the right answer once that goes on.',
} as const;
export type Outcome = keyof typeof OUTCOMES;

/** What becomes of other sessions over the same bridge; those over another one always go on. */
export type Others = 'go on' | 'end';

export interface Cell {
  process: ProcessName;
  fault: Fault;
  phase: Phase;
  /** Absent where there is no such cell; `why` says why not. */
  outcome?: Outcome;
  others?: Others;
  why?: string;
}

/** Processes that a bridge's own sessions all go through: they end with it. */
const SHARED: ReadonlySet<ProcessName> = new Set([
  'server',
  'exec',
  'daemon',
  'agent',
  'engine',
  'request-host',
  'agent-host',
]);

/** A session that has no greeting yet can be given to an agent that is started anew. */
const BEFORE_GREETING: ReadonlySet<Phase> = new Set(['connecting', 'greeting']);

/** What a process that stands still for long means for the clients, where it is not an error for all of them. */
const FROZEN: Partial<Record<ProcessName, Pick<Cell, 'outcome' | 'others'>>> = {
  client: { outcome: 'waits', others: 'go on' },
  server: { outcome: 'late', others: 'end' },
  // It may be waiting for its person, and is never given up once it has greeted.
  agent: { outcome: 'waits', others: 'go on' },
  'request-host': { outcome: 'waits', others: 'go on' },
};

function cell(process: ProcessName, fault: Fault, phase: Phase): Cell {
  const at = { process, fault, phase };
  if (fault === 'stopped') return { ...at, outcome: 'waits', others: 'go on' };
  if (process === 'client' && fault === 'killed') return { ...at, outcome: 'itself', others: 'go on' };
  if (process === 'agent' && BEFORE_GREETING.has(phase)) {
    if (fault === 'killed') return { ...at, outcome: 'served', others: 'end' };
    return { ...at, outcome: 'error', others: 'go on' };
  }
  const frozen = fault === 'frozen' && FROZEN[process];
  if (frozen) return { ...at, ...frozen };
  return { ...at, outcome: 'error', others: SHARED.has(process) ? 'end' : 'go on' };
}

const names = <Name extends string>(record: Readonly<Record<Name, string>>) => Object.keys(record) as Name[];

/** The whole matrix. */
export const CELLS: readonly Cell[] = names(PROCESSES).flatMap((process) =>
  names(FAULTS).flatMap((fault) => names(PHASES).map((phase) => cell(process, fault, phase))),
);

/** The cells of some processes that can be tried. */
export function cellsOf(...processes: ProcessName[]): Cell[] {
  return CELLS.filter((one) => processes.includes(one.process) && one.outcome);
}

/** Other things that happen to a machine, and what then. Each is a test of this name. */
export const SITUATIONS: readonly { name: string; means: string }[] = [
  {
    name: 'the state directory is read-only',
    means: '`up` says so, and what to do. Running bridges go on, but sign nothing: it could not be recorded.',
  },
  {
    name: 'the disk of the state directory is full',
    means:
      '`up` says so, and leaves nothing half-written. A bridge that runs signs nothing until there is room: it could not be recorded.',
  },
  {
    name: 'too many files are open when a bridge is started',
    means: '`up` says so, and how to raise the limit; the next one works.',
  },
  {
    name: 'more clients come than a bridge may open files for',
    means: 'Those that fit are served, others wait or get an error. When some leave, the next one is served.',
  },
  {
    name: 'the clock jumps, back and forth',
    means: 'Nothing notices: only the times in the log do.',
  },
  {
    name: 'the host sleeps for a few seconds, and wakes up',
    means: 'Sessions that were open go on where they were.',
  },
  {
    name: 'the target sleeps for a few seconds, and wakes up',
    means: 'Sessions that were open go on where they were.',
  },
  {
    name: 'both sleep for long, as a laptop with its containers does, and wake up',
    means:
      'Sessions that were open go on where they were: time in which a process does not run is not silence.',
  },
  {
    name: 'the host sleeps for long, and wakes up',
    means:
      'Sessions that were open get an error in the target, whose sockets go. The bridge says so and ends; with `--restart` it attaches again.',
  },
];
