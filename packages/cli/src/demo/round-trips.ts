import net from 'node:net';
import { BlockScanner } from '@gpg-bridge/core/assuan/block-scanner';

const ROUNDS = 200;
/** Not counted: what runs for the first time is being compiled. */
const WARM_UP = 300;
const COMMAND = 'GETINFO pid\n';

/** Median time of one round trip, in microseconds. */
export async function medianRoundTrip(roundTrip: () => Promise<unknown>): Promise<number> {
  const times: number[] = [];
  for (let round = 0; round < WARM_UP; round++) await roundTrip();
  for (let round = 0; round < ROUNDS; round++) {
    const start = process.hrtime.bigint();
    await roundTrip();
    times.push(Number(process.hrtime.bigint() - start) / 1000);
  }
  times.sort((a, b) => a - b);
  return times[ROUNDS / 2]!;
}

/** The same over a socket: one connection, as gpg makes it. */
export async function medianOverSocket(path: string): Promise<number> {
  const socket = net.connect(path);
  const scanner = new BlockScanner();
  let answered = () => {};
  let kind: 'greeting' | 'response' = 'greeting';
  socket.on('error', () => answered());
  socket.on('data', (chunk: Buffer) => {
    scanner.push(chunk);
    if (scanner.next(kind)) answered();
  });
  const answer = () => new Promise<void>((resolve) => (answered = resolve));
  await answer();
  kind = 'response';
  try {
    return await medianRoundTrip(() => {
      const done = answer();
      socket.write(COMMAND);
      return done;
    });
  } finally {
    socket.destroy();
  }
}

/** The same through an AgentProxy, without a client socket. */
export async function medianOverCommands(agent: {
  connectAgent(): Promise<{ sessionId: string }>;
  sendCommands(id: string, block: string): Promise<unknown>;
  disconnectAgent(id: string): Promise<void>;
}): Promise<number> {
  const { sessionId } = await agent.connectAgent();
  try {
    return await medianRoundTrip(() => agent.sendCommands(sessionId, COMMAND));
  } finally {
    await agent.disconnectAgent(sessionId);
  }
}
