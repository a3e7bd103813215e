/**
 * The frames of the wire protocol between the two ends of a bridge.
 *
 *  0      4     5         9
 *  +------+-----+---------+----------- - - -
 *  | len  |type | stream  | payload
 *  +------+-----+---------+----------- - - -
 *  len: uint32 big-endian, counts type + stream + payload (5 … 1,048,576)
 *  stream: uint32 big-endian; 0 is the bridge itself
 */

/** The type byte of every frame. */
export const FRAME = {
  /** Both ways: bytes of one stream. */
  DATA: 1,
  /** Target to host: a client has connected; the payload names the socket type. */
  OPEN: 2,
  /** Both ways: ends both directions, after what its sender sent before it. */
  CLOSE: 3,
  /** Host to target: bytes for the stdin of the next program that is run there. */
  PUBKEY: 4,
  /** Target to host: the first frame, a JSON object. */
  READY: 5,
  /** Target to host: UTF-8 text for a person. */
  ERROR: 6,
  /** Both ways: uint32 bytes of credit. */
  WINDOW: 7,
  /** Target to host: the client has sent its last byte, and still reads. */
  EOF: 8,
  /** Both ways: are you there? */
  PING: 9,
  /** Both ways: the answer to it. */
  PONG: 10,
  /** Host to target: an operation; the stream field is the call's number. */
  CALL: 11,
  /** Target to host: the result of the call with that number. */
  RESULT: 12,
  /** Target to host: the path of this type's socket does not lead to it any more. */
  CHANGED: 13,
  /** Host to target: what the target answers ahead, and with what; the stream field is the socket type's number. */
  TABLE: 14,
  /** Target to host: which of the stream's next commands it has answered, by entries of the table. */
  TOLD: 15,
  /** Host to target: it is the client's turn, if nothing was sent behind so many bytes. */
  TURN: 16,
} as const;

/** Follows the socket type in OPEN when the target has greeted the client itself. */
export const GREETED = ' greeted';

/** The version of the protocol; both ends are always of the same, since the host sends the target's. */
export const PROTOCOL_VERSION = 4;

/** Bytes before the payload. */
export const HEADER_BYTES = 9;
/** The length field counts the type and the stream too: no frame has less. */
export const MIN_LENGTH = 5;
/** No frame has more. */
export const MAX_LENGTH = 1_048_576;
/** The largest payload of one frame, in bytes. */
export const MAX_PAYLOAD = MAX_LENGTH - MIN_LENGTH;
/** Credit of a new stream in each direction, in bytes. */
export const INITIAL_CREDIT = 262_144;
/** What an end holds for all its streams together, in bytes; beyond it nothing more is read. */
export const MAX_HELD = 64 * 1_048_576;
/** How many streams a bridge has at once, unless it is told otherwise. */
export const MAX_STREAMS = 4_096;
/**
 * The largest DATA payload this end sends. A frame can't be interrupted, so a small one keeps the other
 * streams' waiting short; this is also what one read of a socket returns at most.
 */
export const MAX_DATA = 65_536;

/** Called for a frame that was sent (`>`) or received (`<`). */
export type FrameTrace = (way: '>' | '<', type: number, stream: number, payloadLength: number) => void;

/** Writes the nine header bytes of a frame into `into`, at `at`. */
export function writeHeader(
  into: Buffer,
  at: number,
  type: number,
  stream: number,
  payloadLength: number,
): void {
  const length = MIN_LENGTH + payloadLength;
  into[at] = length >>> 24;
  into[at + 1] = length >>> 16;
  into[at + 2] = length >>> 8;
  into[at + 3] = length;
  into[at + 4] = type;
  into[at + 5] = stream >>> 24;
  into[at + 6] = stream >>> 16;
  into[at + 7] = stream >>> 8;
  into[at + 8] = stream;
}
