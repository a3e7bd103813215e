import fc from 'fast-check';

/** One turn of a made-up conversation: who speaks, what kind of block it is, its bytes. */
export interface Turn {
  from: 'client' | 'agent';
  kind: 'greeting' | 'command' | 'inquiry' | 'response';
  bytes: Buffer;
  /** First word of the line that ends it. */
  word: string;
}

const text = (value: string) => Buffer.from(value, 'latin1');
const lineEnd = fc.constantFrom('\n', '\n', '\n', '\r\n').map(text);

/** Any bytes but those that `D` lines escape; they are added in their escaped form. */
const payload = fc
  .uint8Array({ maxLength: 40 })
  .map((bytes) =>
    Buffer.concat(
      Array.from(bytes, (byte) =>
        byte === 0x25 || byte === 0x0a || byte === 0x0d
          ? text(`%${byte.toString(16).padStart(2, '0').toUpperCase()}`)
          : Buffer.of(byte),
      ),
    ),
  );
const dataLine = fc.tuple(payload, lineEnd).map(([bytes, end]) => Buffer.concat([text('D '), bytes, end]));
const unanswered = fc
  .tuple(
    fc.oneof(
      fc.constant(text('')),
      payload.map((bytes) => Buffer.concat([text('#'), bytes])),
    ),
    lineEnd,
  )
  .map((parts) => Buffer.concat(parts));
const statusLine = fc
  .constantFrom('S PROGRESS tick 1 2', 'S INQUIRE_MAXLEN 4096', 'END', 'S', 'D', 'S OK', 'D OK', 'D ERR 1')
  .map((line) => text(`${line}\n`));

const lastLine = (words: readonly string[]) =>
  fc
    .tuple(
      fc.constantFrom(...words),
      fc.oneof(
        fc.constant(text('')),
        payload.map((bytes) => Buffer.concat([text(' '), bytes])),
      ),
      lineEnd,
    )
    .map(([word, rest, end]) => ({ word, bytes: Buffer.concat([text(word), rest, end]) }));

const block = (
  from: Turn['from'],
  kind: Turn['kind'],
  before: fc.Arbitrary<Buffer>,
  words: readonly string[],
) =>
  fc.tuple(fc.array(before, { maxLength: 4 }), lastLine(words)).map(
    ([lines, last]): Turn => ({
      from,
      kind,
      bytes: Buffer.concat([...lines, last.bytes]),
      word: last.word,
    }),
  );

const command = block('client', 'command', unanswered, ['PKSIGN', 'getinfo', 'D', 'END', 'OK', 'X', 'RESET']);
const inquiry = block('client', 'inquiry', fc.oneof(unanswered, dataLine), [
  'END',
  'CAN',
  'end',
  'BYE',
  'CANxyz',
]);
const agentLine = fc.oneof(unanswered, dataLine, statusLine);
const asksBack = block('agent', 'response', agentLine, ['INQUIRE']);
const answers = block('agent', 'response', agentLine, ['OK', 'ERR']);

const exchange = fc
  .tuple(command, fc.array(fc.tuple(asksBack, inquiry), { maxLength: 3 }), answers)
  .map(([asked, inquiries, answer]) => [asked, ...inquiries.flat(), answer]);

/** Any valid conversation: a greeting, then commands with any number of inquiries and a final answer. */
export const conversation: fc.Arbitrary<Turn[]> = fc
  .tuple(block('agent', 'greeting', unanswered, ['OK']), fc.array(exchange, { maxLength: 6 }))
  .map(([greeting, exchanges]) => [greeting, ...exchanges.flat()]);

/** Cuts bytes at any places, given as numbers between 0 and 1; empty pieces included. */
export function cut(bytes: Buffer, places: readonly number[]): Buffer[] {
  const offsets = places.map((place) => Math.round(place * bytes.length)).sort((a, b) => a - b);
  return [0, ...offsets].map((start, index) => bytes.subarray(start, offsets[index] ?? bytes.length));
}

/** Places for `cut`. */
export const places: fc.Arbitrary<number[]> = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), {
  maxLength: 30,
});
