import { FRAME } from '@gpg-bridge/core/mux/frame';

/** How a socket server tells a frame: its way, seen from the server, its type, its stream and the size it carries. */
const TOLD_FRAME = /^frame ([<>]) (\d{1,3}) (\d{1,10}) (\d{1,7})$/;

const WAYS = new Map([
  ['>', 'sent'],
  ['<', 'received'],
]);
const NAMES = new Map(Object.entries(FRAME).map(([name, type]) => [type as number, name]));
/** Frames that no session has: their stream field is a call's number, or a socket type's, or nothing. */
const WITHOUT_SESSION = new Map<number, string>([
  [FRAME.CALL, 'call'],
  [FRAME.RESULT, 'call'],
  [FRAME.TABLE, 'socket type'],
]);

/** What a line of a socket server's says of a frame; undefined for any other line. */
export function frameWords(line: string): string | undefined {
  const [, way = '', type, stream, size] = TOLD_FRAME.exec(line) ?? [];
  const name = NAMES.get(Number(type));
  if (!name) return undefined;
  const owner = stream === '0' ? '' : `${WITHOUT_SESSION.get(Number(type)) ?? 'session'} ${stream}: `;
  return `${owner}${WAYS.get(way)} ${name} of ${size} bytes`;
}
