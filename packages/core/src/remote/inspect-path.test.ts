import { join } from 'node:path';
import { listen } from '@gpg-bridge/test-support/target-listener';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { expect, test } from 'vitest';
import { DirectOperations } from './direct-operations.ts';
import { inspectPath } from './inspect-path.ts';
import type { FileFacts } from './operations.ts';

const ROUNDS = 3;
/** A little less than the pauses between the looks, of which the first one is left out. */
const PAUSES_MS = (ROUNDS - 1) * 45;

/** A target that says for a while, at each look, that another socket is there. */
class Restless extends DirectOperations {
  looks = 0;

  override async lstat(path: string): Promise<FileFacts | undefined> {
    const facts = await super.lstat(path);
    this.looks++;
    if (!facts || this.looks > 2 * ROUNDS) return facts;
    return { ...facts, identity: { ...facts.identity, ino: `${this.looks}` } };
  }
}

test('a target that never says the same twice has nobody else asked, and is looked at with pauses', async () => {
  const path = join(await tempDir(), 'S.gpg-agent');
  await listen(path);
  const target = new Restless();
  const asked: unknown[] = [];
  const began = performance.now();
  const finding = await inspectPath(target, {
    path,
    type: 'gpg-agent',
    timeoutMs: 20_000,
    holderOf: async (socket) => {
      asked.push(socket);
      return 'the bridge to elsewhere';
    },
  });
  expect(finding).toMatchObject({ found: 'forward', bridge: 'the bridge to elsewhere' });
  expect(target.looks).toBe(2 * ROUNDS + 2);
  expect(asked).toHaveLength(1);
  expect(performance.now() - began).toBeGreaterThan(PAUSES_MS);
});
