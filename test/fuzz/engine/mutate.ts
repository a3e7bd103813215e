import type { Random } from './random.ts';

/** Numbers at which lengths and counts go wrong. */
const EDGES = [0, 1, 4, 5, 9, 16, 127, 128, 255, 256, 1_000, 1_001, 1_002, 4_096, 65_535, 65_536, 262_144];
/** Lengths of a run: of a field, and up to where a line is cut. */
const SMALL = [2, 4, 5, 9, 16, 32];
const LIMITS = [127, 128, 256, 999, 1_000, 1_001, 1_002];
const LARGE = [1_048_571, 1_048_576, 1_048_577, 0x7fffffff, 0x80000000, 0xffffffff];

type Mutation = (input: Buffer, random: Random, words: readonly Buffer[], other: Buffer) => Buffer;

const at = (input: Buffer, random: Random) => random.below(input.length + 1);

function inserted(input: Buffer, position: number, piece: Buffer): Buffer {
  return Buffer.concat([input.subarray(0, position), piece, input.subarray(position)]);
}

function overwritten(input: Buffer, position: number, piece: Buffer): Buffer {
  const changed = Buffer.from(input);
  piece.copy(changed, position);
  return changed;
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

const MUTATIONS: readonly Mutation[] = [
  (input, random) => overwritten(input, at(input, random), random.bytes(1)),
  (input, random) => overwritten(input, at(input, random), random.bytes(1 + random.below(8))),
  (input, random) => {
    const changed = Buffer.from(input);
    if (changed.length > 0) changed[random.below(changed.length)]! ^= 1 << random.below(8);
    return changed;
  },
  (input, random) => inserted(input, at(input, random), random.bytes(1 + random.below(16))),
  (input, random, words) => inserted(input, at(input, random), random.pick(words)),
  (input, random, words) => overwritten(input, at(input, random), random.pick(words)),
  (input, random) => inserted(input, at(input, random), uint32(random.pick([...EDGES, ...LARGE]))),
  (input, random) => overwritten(input, at(input, random), uint32(random.pick([...EDGES, ...LARGE]))),
  (input, random) => {
    const from = at(input, random);
    const to = Math.min(input.length, from + random.below(64));
    return Buffer.concat([input.subarray(0, from), input.subarray(to)]);
  },
  (input, random) => {
    const from = at(input, random);
    const piece = input.subarray(from, from + 1 + random.below(64));
    return inserted(input, at(input, random), piece);
  },
  // A run of one byte, up to where a limit may be.
  (input, random) =>
    inserted(
      input,
      at(input, random),
      Buffer.alloc(random.pick(random.oneIn(8) ? LIMITS : SMALL), random.below(256)),
    ),
  (input, random, _words, other) =>
    Buffer.concat([input.subarray(0, at(input, random)), other.subarray(at(other, random))]),
];

/** An input made of another, by a few changes: bytes, lengths, words of the format, pieces of a second input. */
export function mutate(
  input: Buffer,
  other: Buffer,
  random: Random,
  words: readonly Buffer[],
  maxLength: number,
): Buffer {
  let changed = input;
  for (let left = 1 + random.below(6); left > 0; left--) {
    changed = random.pick(MUTATIONS)(changed, random, words, other);
  }
  return changed.length > maxLength ? changed.subarray(0, maxLength) : changed;
}
