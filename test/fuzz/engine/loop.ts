import { setImmediate as nextTurn } from 'node:timers/promises';
import { mutate } from './mutate.ts';
import { Random } from './random.ts';
import { bytes, type FuzzTarget } from './target.ts';

/** An input that something went wrong with. */
export interface Finding {
  input: Buffer;
  error: string;
}

/** How a target is fuzzed. */
export interface LoopOptions {
  seed: number;
  /** Inputs that found something before. */
  corpus: readonly Buffer[];
  /** One for each place of the code, counted up by it; empty without coverage. */
  counters: Uint8Array;
  /** Told of an input before it is used, and how many there have been. */
  onInput(input: Buffer, count: number): void;
  isOver(count: number): boolean;
}

/** What came of it. */
export interface LoopResult {
  inputs: number;
  /** Inputs that reached something new. */
  kept: number;
  /** Places of the code that were reached. */
  reached: number;
  finding?: Finding;
}

const MAX_LENGTH = 512;
const MAX_KEPT = 4_000;
const STACK_LINES = 10;
/** Inputs without a look at anything else. */
const TURN = 500;
/** How often an input may be tried again to make it smaller. */
const MAX_TRIALS = 3_000;

/** Feeds a target with inputs, and builds on those that reached something new, until it is over or one fails. */
export async function fuzz(target: FuzzTarget, options: LoopOptions): Promise<LoopResult> {
  const { counters } = options;
  const random = new Random(options.seed);
  const words = [Buffer.from('\n'), Buffer.of(0), ...target.words.map(bytes)];
  const first = [Buffer.alloc(0), ...target.seeds.map(bytes), ...options.corpus];
  const kept: Buffer[] = [];
  const seen = new Uint8Array(counters.length);
  let inputs = 0;
  Error.stackTraceLimit = 0; // most of the time would go into stacks of errors that are expected
  const result = (finding?: Finding): LoopResult => ({
    inputs,
    kept: kept.length,
    reached: seen.reduce((sum, each) => sum + (each === 0 ? 0 : 1), 0),
    ...(finding ? { finding } : {}),
  });
  while (!options.isOver(inputs)) {
    const input = first[inputs] ?? next(kept, random, words, target.maxLength ?? MAX_LENGTH);
    options.onInput(input, inputs);
    counters.fill(0);
    const error = failureOf(target, input);
    inputs += 1;
    if (error !== undefined) {
      const smallest = minimised(target, input, error);
      Error.stackTraceLimit = STACK_LINES;
      return result({ input: smallest, error: failureOf(target, smallest) ?? error });
    }
    if (isNew(counters, seen) || inputs <= first.length) keep(kept, input, random);
    // What a target has put off, such as the end of a stream, is done now and then.
    if (inputs % TURN === 0) await nextTurn();
  }
  return result();
}

function next(kept: readonly Buffer[], random: Random, words: readonly Buffer[], maxLength: number): Buffer {
  // What was found last is changed most often: it is where the unknown begins.
  const recent = random.oneIn(2) ? Math.max(0, kept.length - 32) : 0;
  const some = () => kept[recent + random.below(kept.length - recent)]!;
  const [one, another] = [some(), some()];
  // Short ones are quick, and what is in them is easier to change.
  return mutate(one.length < another.length ? one : another, random.pick(kept), random, words, maxLength);
}

function keep(kept: Buffer[], input: Buffer, random: Random): void {
  const copy = Buffer.from(input);
  if (kept.length < MAX_KEPT) kept.push(copy);
  else kept[random.below(kept.length)] = copy;
}

/** Whether a place was reached for the first time, or for the first time so often; numbers count by their length. */
function isNew(counters: Uint8Array, seen: Uint8Array): boolean {
  let found = false;
  for (let at = 0; at < counters.length; at++) {
    const count = counters[at]!;
    if (count === 0) continue;
    const bit = 1 << Math.min(7, 31 - Math.clz32(count));
    if ((seen[at]! & bit) !== 0) continue;
    seen[at]! |= bit;
    found = true;
  }
  return found;
}

/** What went wrong with an input, in words; undefined if nothing did. */
export function failureOf(target: FuzzTarget, input: Buffer): string | undefined {
  try {
    target.run(input);
    return undefined;
  } catch (error) {
    return error instanceof Error ? (error.stack ?? error.message) : String(error);
  }
}

/** The smallest input that can be found quickly which fails with the same words. */
function minimised(target: FuzzTarget, input: Buffer, error: string): Buffer {
  const head = error.split('\n', 1)[0];
  let smallest = Buffer.from(input);
  let trials = 0;
  for (let size = Math.ceil(smallest.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
    for (let at = 0; at < smallest.length && trials < MAX_TRIALS; trials++) {
      const shorter = Buffer.concat([smallest.subarray(0, at), smallest.subarray(at + size)]);
      if (failureOf(target, shorter)?.split('\n', 1)[0] === head) smallest = shorter;
      else at += size;
    }
  }
  return smallest;
}
