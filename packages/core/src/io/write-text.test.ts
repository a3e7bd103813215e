import { once } from 'node:events';
import { readExactly, socketPair } from '@gpg-bridge/test-support/socket-pair';
import { describe, expect, it } from 'vitest';
import { writeText } from './write-text.ts';

/** Every byte value, with a period that no piece has. */
function text(length: number): string {
  return Buffer.from(Uint8Array.from({ length }, (_, at) => (at * 7 + at / 251) & 255)).toString('latin1');
}

describe('text', () => {
  it.each([1, 65_535, 65_536, 65_537, 5_000_001])(
    'of %i characters leaves as so many bytes',
    async (length) => {
      const [near, far] = await socketPair();
      if (near.connecting) await once(near, 'connect');
      const sent = text(length);
      let written = 0;
      const done = new Promise<void>((resolve) => {
        writeText(near, sent, (error) => {
          expect(error).toBeFalsy();
          written += 1;
          resolve();
        });
      });
      const got = (await readExactly(far, length)).toString('latin1');
      await done;
      expect(got === sent).toBe(true);
      expect(written).toBe(1);
    },
  );

  it('that is empty is written at once', async () => {
    const [near] = await socketPair();
    let written = 0;
    writeText(near, '', () => written++);
    expect(written).toBe(1);
  });

  it('for somebody who is gone is told as an error, once', async () => {
    const [near, far] = await socketPair();
    far.destroy();
    await once(far, 'close');
    near.on('error', () => {});
    const errors: unknown[] = [];
    await new Promise<void>((resolve) => {
      writeText(near, text(200_000), (error) => {
        errors.push(error);
        resolve();
      });
    });
    expect(errors).toMatchObject([{ code: 'EPIPE' }]);
  });
});
