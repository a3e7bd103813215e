import { describe, it } from 'vitest';
import { BridgeLine } from './lines.ts';
import { Stage } from './stage.ts';
import { cellsOf, type Phase } from './table.ts';

/** No real agent can be made to write half of something: there another one stands before it. */
const HALVES: ReadonlySet<Phase> = new Set(['greeting', 'response']);

describe.each([
  ['gpg-agent itself', { held: false }],
  ['an agent that writes halves', { held: true }],
])('%s', (_name, { held }) => {
  const stage = new Stage({ held });

  describe.each(cellsOf('agent').filter(({ phase }) => HALVES.has(phase) === held))('$process', (cell) => {
    it(`${cell.fault}, ${cell.phase}: ${cell.outcome}`, () =>
      stage.try(cell, async (scene) => {
        const line = await BridgeLine.for(cell, await scene.place(), '--runtime=perl');
        const victim = held ? scene.holder.pid : await scene.agentPid();
        const hold = held ? scene.holdByHolder(cell.phase) : scene.holdByStopping(cell.phase, victim);
        const revive = held ? () => scene.startHolder() : async () => {};
        return { line, hold, victim, revive };
      }));
  });
});
