import { requireRuntime } from '@gpg-bridge/test-support/requirements';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { BridgeLine } from './lines.ts';
import { runCell } from './run-cell.ts';
import { Scene } from './scene.ts';
import { cellsOf, type Phase } from './table.ts';

/** Where a server that is written anew is most likely to differ; the whole table is tried with Perl. */
const PHASES: ReadonlySet<Phase> = new Set(['connecting', 'inquiry', 'response']);

let scene: Scene;
beforeAll(async () => {
  scene = await Scene.create();
});
afterAll(() => scene?.remove());

describe.each(['python', 'node', 'native'] as const)('over %s', (runtime) => {
  requireRuntime(runtime)('a bridge', () => {
    const cells = cellsOf('client', 'server', 'daemon').filter(({ phase }) => PHASES.has(phase));
    describe.each(cells)('$process', (cell) => {
      it(`${cell.fault}, ${cell.phase}: ${cell.outcome}`, async () => {
        const line = await BridgeLine.for(cell, await scene.place(), `--runtime=${runtime}`);
        await runCell(cell, { scene, line, hold: scene.holdByHolder(cell.phase) });
      });
    });
  });
});
