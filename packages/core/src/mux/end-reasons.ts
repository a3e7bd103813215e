import { BridgeError } from '../errors.ts';
import type { MuxStream } from './stream.ts';

/** The other end ignored the credit of a stream. */
export function creditExceeded(stream: MuxStream): BridgeError {
  return new BridgeError('SESSION_ENDED', {
    what: `session ${stream.id} was closed`,
    why: 'the other end sent more than it was given credit for',
    fix: 'Try the command again.',
  });
}

/** A stream's consumer left too much unread. */
export function leftUnread(stream: MuxStream): BridgeError {
  return new BridgeError('SESSION_ENDED', {
    what: `session ${stream.id} was closed`,
    why: `too much was held for all sessions, and ${stream.undelivered} bytes of it were this one's`,
    fix: 'Try the command again.',
  });
}

/** The stream that carries the frames failed. */
export function carrierError(error: Error): BridgeError {
  return new BridgeError('TARGET_CLOSED', {
    what: 'the bridge ended',
    why: `its stream to the other end failed (${error.message})`,
    fix: 'Start it again.',
    cause: error,
  });
}

/** Nothing came from the other end for so long that it is gone, or the way to it. */
export function lineSilent(otherEnd: 'host' | 'target', silenceMs: number): BridgeError {
  return new BridgeError('LINE_SILENT', {
    what: 'the bridge ended',
    why: `nothing came from the ${otherEnd} for ${(silenceMs / 1000).toFixed(1).replace('.0', '')} s`,
    fix:
      otherEnd === 'target'
        ? 'See whether it can be reached, and start the bridge again; with --restart it does that by itself.'
        : 'Start it again on the host.',
  });
}
