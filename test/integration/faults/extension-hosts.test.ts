import { describe, it } from 'vitest';
import { ExtensionLine } from './lines.ts';
import { Stage } from './stage.ts';
import { cellsOf } from './table.ts';

const stage = new Stage();

describe.each(cellsOf('request-host', 'agent-host'))('$process', (cell) => {
  it(`${cell.fault}, ${cell.phase}: ${cell.outcome}`, () =>
    stage.try(cell, async (scene) => ({
      line: await ExtensionLine.start(await scene.place(), await scene.hostScripts(), cell),
      hold: scene.holdByHolder(cell.phase),
    })));
});
