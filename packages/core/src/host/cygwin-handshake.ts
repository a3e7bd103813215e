import type { Socket } from 'node:net';

/**
 * The client's side of a Cygwin socket's handshake, all numbers little-endian:
 *
 *     client  nonce (16)  ────────────────▶
 *             ◀──────────  the same nonce    agent
 *     client  pid u32, uid, gid  ─────────▶
 *             ◀──────────  pid u32, uid, gid agent
 *
 * uid and gid are 16 bits each for libassuan (8 bytes in all) and 32 bits each for Cygwin's own library
 * (12 bytes in all). Nothing in the file tells which; an agent that wants 12 stays silent after 8.
 */
export type HandshakeOutcome = 'done' | 'closed' | 'wrong-echo';

const SHORT_CREDENTIALS = 8;
const LONG_CREDENTIALS = 12;
/** How long 8 bytes of credentials may go unanswered before the other 4 follow. */
const SILENCE_MS = 1000;

/** Sockets whose agent was found to want 12 bytes, so that only the first connection waits for that. */
const wantLong = new Set<string>();

/**
 * Does the handshake on a connected socket; `key` names the socket file. The caller bounds the time and
 * destroys the socket when it is over: that ends the handshake as `closed`.
 */
export function cygwinHandshake(
  socket: Socket,
  nonce: Buffer,
  key: string,
  silenceMs = SILENCE_MS,
): Promise<HandshakeOutcome> {
  return new Promise((resolve) => {
    const credentials = Buffer.alloc(LONG_CREDENTIALS);
    // uid and gid stay 0: Windows has none, and agents only use them to tell who is asking.
    credentials.writeUInt32LE(process.pid, 0);
    let received: Buffer = Buffer.alloc(0);
    let sent = 0;
    let silence: NodeJS.Timeout | undefined;

    const send = (length: number) => {
      socket.write(credentials.subarray(sent, length));
      sent = length;
    };
    const finish = (outcome: HandshakeOutcome) => {
      clearTimeout(silence);
      socket.off('readable', onReadable).off('close', onClose).off('end', onClose).off('error', ignore);
      resolve(outcome);
    };
    const onClose = () => finish('closed');
    const ignore = () => {}; // 'close' follows
    // Not 'data': a socket that flowed and was paused stays paused when the next reader comes.
    const onReadable = () => {
      const chunk = socket.read() as Buffer | null;
      if (chunk === null) return;
      received = Buffer.concat([received, chunk]); // at most 28 bytes and a greeting
      if (received.length < nonce.length) return;
      if (!received.subarray(0, nonce.length).equals(nonce)) return finish('wrong-echo');
      if (sent === 0) {
        const long = wantLong.has(key);
        send(long ? LONG_CREDENTIALS : SHORT_CREDENTIALS);
        if (!long) silence = setTimeout(send, silenceMs, LONG_CREDENTIALS);
      }
      const rest = received.subarray(nonce.length);
      if (rest.length > 0) clearTimeout(silence);
      if (rest.length < sent) return;
      if (sent === LONG_CREDENTIALS) wantLong.add(key);
      finish('done');
      // What follows is the agent's greeting: put back for whoever reads next.
      if (rest.length > sent) socket.unshift(rest.subarray(sent));
    };
    socket.on('readable', onReadable).on('close', onClose).on('end', onClose).on('error', ignore);
    socket.write(nonce);
  });
}
