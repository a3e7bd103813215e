#!/usr/bin/env node
import { writeSync } from 'node:fs';
import { hideStartFlags } from './daemon/v8-flags.ts';
import { resolveOwnEnvironment } from './environment.ts';
import { quickUp } from './quick-up.ts';
import { VERSION } from './version.ts';

/**
 * The program begins with what has to be quick: most of the time that a small command takes is compiling, so the rest is
 * a bundle of its own (see scripts/build.mjs).
 */
async function main(words: readonly string[]): Promise<void> {
  try {
    resolveOwnEnvironment();
  } catch (error) {
    (await import('./program.ts')).fail(words, error);
    return;
  }
  await hideStartFlags();
  const [first, ...rest] = words;
  if (first === '--version' || first === '-V') {
    await print(`${VERSION}\n`);
    return;
  }
  // What keeps it from being quick is told by whoever does it the long way.
  const outcome = first === 'up' ? await quickUp(rest).catch(() => 'unknown' as const) : 'unknown';
  if (typeof outcome === 'string') {
    (await import('./program.ts')).start(words, outcome === 'late');
    return;
  }
  await print(outcome.printed);
  process.exitCode = outcome.exitStatus;
}

/** Writes to standard output, past Node's stream for it, which takes a while to make. */
async function print(text: string): Promise<void> {
  const bytes = Buffer.from(text);
  let written = 0;
  try {
    // A console of Windows takes no bytes, but characters.
    while (written < bytes.length && process.platform !== 'win32') written += writeSync(1, bytes, written);
  } catch {
    // A pipe that is full, or that nobody reads: the stream knows what to do.
  }
  if (written < bytes.length) (await import('./program.ts')).print(bytes.subarray(written));
}

void main(process.argv.slice(2));
