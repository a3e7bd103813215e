import { afterAll, beforeAll } from 'vitest';
import { type Attempt, runCell } from './run-cell.ts';
import { Scene } from './scene.ts';
import type { Cell } from './table.ts';

/** After so many cells that failed no other is tried: each takes half a minute to fail, and a file has up to 81. */
const MOST_FAILURES = 5;

export interface StageOptions {
  /** Whether the agent can be held anywhere; see `Scene.create`. */
  held?: boolean;
  /** Makes anew what the cells use beside the scene. */
  renew?: () => Promise<void>;
}

/**
 * Where the cells of a suite are tried, one after the other: in one scene, as it is slow to make, and in another one
 * after a cell that failed, which may leave anything. Call it where hooks of the suite can be registered.
 */
export class Stage {
  #scene: Scene | undefined;
  /** The cell that has begun and has not succeeded: a test that is cut off at its limit does not tell. */
  #begun: string | undefined;
  /** Whether the scene saw a cell that failed. */
  #isSpoilt = false;
  readonly #failed: string[] = [];

  constructor(private readonly options: StageOptions = {}) {
    beforeAll(async () => {
      this.#scene = await Scene.create(options);
    });
    afterAll(() => {
      this.#noteFailure();
      return this.#isSpoilt ? this.#scene?.discard() : this.#scene?.remove();
    });
  }

  /** Tries a cell, with what `prepare` makes for it. */
  async try(cell: Cell, prepare: (scene: Scene) => Promise<Omit<Attempt, 'scene'>>): Promise<void> {
    this.#noteFailure();
    if (this.#failed.length >= MOST_FAILURES) {
      throw new Error(`not tried, after these cells failed: ${this.#failed.join('; ')}`);
    }
    const name = `${cell.process} ${cell.fault}, ${cell.phase}`;
    this.#begun = name;
    if (this.#isSpoilt) await this.#makeAnew();
    const scene = this.#scene!;
    await runCell(cell, { ...(await prepare(scene)), scene });
    // One that was cut off may come to its end after all, when another has begun.
    if (this.#begun === name) this.#begun = undefined;
  }

  #noteFailure(): void {
    if (this.#begun === undefined) return;
    this.#failed.push(this.#begun);
    this.#begun = undefined;
    this.#isSpoilt = true;
  }

  async #makeAnew(): Promise<void> {
    await this.#scene?.discard();
    this.#scene = undefined;
    await this.options.renew?.();
    this.#scene = await Scene.create(this.options);
    this.#isSpoilt = false;
  }
}
