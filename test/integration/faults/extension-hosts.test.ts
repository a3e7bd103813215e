import { afterAll, beforeAll, describe, it } from 'vitest';
import { ExtensionLine } from './lines.ts';
import { runCell } from './run-cell.ts';
import { Scene } from './scene.ts';
import { cellsOf } from './table.ts';

let scene: Scene;
beforeAll(async () => {
  scene = await Scene.create();
});
afterAll(() => scene?.remove());

describe.each(cellsOf('request-host', 'agent-host'))('$process', (cell) => {
  it(`${cell.fault}, ${cell.phase}: ${cell.outcome}`, async () => {
    const line = await ExtensionLine.start(await scene.place(), await scene.hostScripts(), cell);
    await runCell(cell, { scene, line, hold: scene.holdByHolder(cell.phase) });
  });
});
