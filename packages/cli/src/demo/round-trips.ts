import net from 'node:net';
import { BlockScanner } from '@gpg-bridge/core/assuan/block-scanner';
import type { CommandExecutor } from '@gpg-bridge/core/remote/agent-channel';

/** One way to an agent, over which a command can be asked again and again. */
export interface Path {
  roundTrip(): Promise<unknown>;
  close(): Promise<void> | void;
}

/** Round trips that count, on each path. */
export const COUNTED = 400;
const PER_TURN = 20;
/** The first of a turn do not count: processors and processes that slept are slower to answer. */
const SETTLE = 10;
/** The first turns do not count either: V8 is still compiling what they run. */
const WARM_UP_TURNS = 10;
/** Nothing answers it but the agent. */
const COMMAND = 'NOP\n';

/**
 * Median time of a round trip on each path, in microseconds. The paths take turns, so that whatever else the
 * machine does hits all alike and the differences mean something. Closes them in the end.
 */
export async function medianRoundTrips(paths: readonly Path[]): Promise<number[]> {
  const times = paths.map((): number[] => []);
  try {
    for (let turn = 0; turn < WARM_UP_TURNS + COUNTED / PER_TURN; turn++) {
      for (const [index, path] of paths.entries()) {
        for (let trip = 0; trip < SETTLE + PER_TURN; trip++) {
          const start = process.hrtime.bigint();
          await path.roundTrip();
          const took = Number(process.hrtime.bigint() - start) / 1000;
          if (turn >= WARM_UP_TURNS && trip >= SETTLE) times[index]!.push(took);
        }
      }
    }
  } finally {
    for (const path of paths) await path.close();
  }
  return times.map((sample) => sample.sort((x, y) => x - y)[COUNTED / 2]!);
}

/** A connection to a socket, as gpg makes it. */
export async function overSocket(path: string): Promise<Path> {
  const socket = net.connect(path);
  const scanner = new BlockScanner();
  let settle = { resolve: () => {}, reject: (_error: Error) => {} };
  let kind: 'greeting' | 'response' = 'greeting';
  socket.on('error', (error) => settle.reject(error));
  socket.on('close', () => settle.reject(new Error(`${path} was closed before it answered`)));
  socket.on('data', (chunk: Buffer) => {
    scanner.push(chunk);
    if (scanner.next(kind)) settle.resolve();
  });
  const answer = () =>
    new Promise<void>((resolve, reject) => {
      settle = { resolve, reject };
    });
  await answer();
  kind = 'response';
  return {
    roundTrip() {
      const answered = answer();
      socket.write(COMMAND);
      return answered;
    },
    close: () => void socket.destroy(),
  };
}

/** A session of an AgentProxy, without a client socket. */
export async function overCommands(agent: CommandExecutor): Promise<Path> {
  const { sessionId } = await agent.connectAgent();
  return {
    roundTrip: () => agent.sendCommands(sessionId, COMMAND),
    close: () => agent.disconnectAgent(sessionId),
  };
}
