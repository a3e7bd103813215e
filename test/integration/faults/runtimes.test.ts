import { requireRuntime } from '@gpg-bridge/test-support/requirements';
import { describe, it } from 'vitest';
import { BridgeLine } from './lines.ts';
import { Stage } from './stage.ts';
import { cellsOf, type Phase } from './table.ts';

/** Where a server that is written anew is most likely to differ; the whole table is tried with Perl. */
const PHASES: ReadonlySet<Phase> = new Set(['connecting', 'inquiry', 'response']);

describe.each(['node', 'native'] as const)('over %s', (runtime) => {
  requireRuntime(runtime)('a bridge', () => {
    const stage = new Stage();
    const cells = cellsOf('client', 'server', 'daemon').filter(({ phase }) => PHASES.has(phase));
    describe.each(cells)('$process', (cell) => {
      it(`${cell.fault}, ${cell.phase}: ${cell.outcome}`, () =>
        stage.try(cell, async (scene) => ({
          line: await BridgeLine.for(cell, await scene.place(), `--runtime=${runtime}`),
          hold: scene.holdByHolder(cell.phase),
        })));
    });
  });
});
