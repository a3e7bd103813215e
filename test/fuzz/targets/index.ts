import type { FuzzTarget } from '../engine/target.ts';
import { assuanBlocks } from './assuan-blocks.ts';
import { commandGate } from './command-gate.ts';
import { engine } from './engine.ts';
import { frames } from './frames.ts';
import { muxer } from './muxer.ts';
import { observer } from './observer.ts';
import { ready } from './ready.ts';
import { socketFile } from './socket-file.ts';
import { sshFilter } from './ssh-filter.ts';

/** Every reader and rule that is fuzzed in the fuzzer's own process, with coverage. */
export const TARGETS: readonly FuzzTarget[] = [
  frames,
  muxer,
  ready,
  assuanBlocks,
  commandGate,
  observer,
  sshFilter,
  socketFile,
  engine,
];
