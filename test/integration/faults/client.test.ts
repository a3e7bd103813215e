import { describe, it } from 'vitest';
import { BridgeLine } from './lines.ts';
import { Stage } from './stage.ts';
import { cellsOf } from './table.ts';

const stage = new Stage();

describe.each(cellsOf('client'))('$process', (cell) => {
  it(`${cell.fault}, ${cell.phase}: ${cell.outcome}`, () =>
    stage.try(cell, async (scene) => ({
      line: await BridgeLine.for(cell, await scene.place(), '--runtime=perl'),
      hold: scene.holdByHolder(cell.phase),
    })));
});
