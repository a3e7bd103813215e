import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { addCounters } from '../fuzz/engine/instrument.mjs';
import { failureOf, fuzz } from '../fuzz/engine/loop.ts';
import { bytes, type FuzzTarget } from '../fuzz/engine/target.ts';
import { TARGETS } from '../fuzz/targets/index.ts';

const CORPUS = new URL('../fuzz/corpus/', import.meta.url);
/** Far fewer than `npm run fuzz` takes, and without coverage. */
const INPUTS = 300;

/** Inputs that found something once. */
function corpusOf(name: string): Buffer[] {
  if (!readdirSync(CORPUS).includes(name)) return [];
  const directory = new URL(`${name}/`, CORPUS);
  return readdirSync(directory).map((file) => readFileSync(new URL(file, directory)));
}

describe.each(TARGETS)('the fuzz target $name', (target) => {
  it('has nothing wrong with what found something before, and with its seeds', () => {
    for (const input of [...target.seeds.map(bytes), ...corpusOf(target.name)]) {
      expect(failureOf(target, input)).toBeUndefined();
    }
  });

  it('has nothing wrong with the first inputs', async () => {
    const isOver = (count: number) => count >= INPUTS;
    const options = { seed: 1, corpus: [], counters: new Uint8Array(), onInput: () => {}, isOver };
    const limit = Error.stackTraceLimit;
    try {
      expect(await fuzz(target, options)).toMatchObject({ inputs: INPUTS });
      expect((await fuzz(target, options)).finding).toBeUndefined();
    } finally {
      Error.stackTraceLimit = limit;
    }
  });
});

it('every folder of the corpus belongs to a target', () => {
  const names = TARGETS.map(({ name }) => name);
  for (const folder of readdirSync(CORPUS)) expect(names).toContain(folder);
});

describe('the fuzzer', () => {
  const SOURCE = `(bytes) => {
    if (bytes[0] === 66) {
      if (bytes[1] === 85) {
        if (bytes[2] === 71) { for (const byte of bytes) if (byte === 33 || byte === 35) throw new Error('found'); }
      }
    }
  }`;

  it('finds by coverage what chance would not, makes it small, and finds the same again', async () => {
    const { text, count } = addCounters(`module.exports = ${SOURCE}`);
    const counters = new Uint8Array(count);
    (globalThis as { fuzzCounters?: Uint8Array }).fuzzCounters = counters;
    const module: { exports?: (input: Buffer) => void } = {};
    new Function('module', text)(module);
    const target: FuzzTarget = { name: 'planted', seeds: ['xxxxxxxx'], words: [], run: module.exports! };
    const limit = Error.stackTraceLimit;
    const run = (seed: number, isCovered: boolean) =>
      fuzz(target, {
        seed,
        corpus: [],
        counters: isCovered ? counters : new Uint8Array(),
        onInput: () => {},
        isOver: (inputs) => inputs >= 300_000,
      });
    try {
      const first = await run(1, true);
      expect(first.finding?.error).toContain('found');
      expect(first.finding?.input.toString('latin1')).toMatch(/^BUG[!#]$/);
      expect(await run(1, true)).toMatchObject({ inputs: first.inputs });
    } finally {
      Error.stackTraceLimit = limit;
    }
  });
});
