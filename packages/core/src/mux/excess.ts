import { BridgeError } from '../errors.ts';
import { MAX_UNDELIVERED } from './frame.ts';
import type { MuxStream } from './stream.ts';

/**
 * Why a stream can't take a DATA payload of this length, if so: with credit it is more than was given,
 * without it its reader has left too much unread.
 */
export function excess(stream: MuxStream, length: number, withCredit: boolean): BridgeError | undefined {
  const room = withCredit ? stream.receiveCredit : MAX_UNDELIVERED - stream.undelivered;
  if (length <= room) return undefined;
  return new BridgeError('SESSION_ENDED', {
    what: `session ${stream.id} was closed`,
    why: withCredit
      ? 'the other end sent more than it was given credit for'
      : `its reader left more than ${MAX_UNDELIVERED / 1_048_576} MiB unread`,
    fix: 'Try the command again.',
  });
}
