import { copyFile, mkdir, rename, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { imageCacheDir } from './engine/images.ts';
import { GnupgHome } from './gnupg-home.ts';
import { makeOpenPgpKey } from './openpgp-keys.ts';
import { BUILD_LIMIT_MS } from './process.ts';

/** How many keys are in the large keyring. */
export const LARGE_KEYRING_KEYS = 5_000;

/**
 * A pubring.kbx with 5,000 keys, two megabytes of them: more than one frame takes. gpg needs half a minute
 * to make it, so it is kept between runs.
 */
export async function largeKeyring(): Promise<string> {
  const path = join(imageCacheDir(), `keyring-${LARGE_KEYRING_KEYS}-1.kbx`);
  if (await stat(path).catch(() => undefined)) return path;
  const keys = Array.from({ length: LARGE_KEYRING_KEYS }, (_, index) =>
    makeOpenPgpKey([`Key ${index} <${index}@example.org>`, `Key ${index} at work <${index}@example.com>`]),
  );
  const home = await GnupgHome.create();
  try {
    const input = Buffer.concat(keys.map(({ packets }) => packets));
    await home.gpgOk(['--no-autostart', '--import'], { input, limitMs: BUILD_LIMIT_MS });
    await mkdir(imageCacheDir(), { recursive: true });
    // Complete or not there: another run may be making the same.
    const unfinished = `${path}.${process.pid}`;
    await copyFile(join(home.dir, 'pubring.kbx'), unfinished);
    await rename(unfinished, path);
  } finally {
    await home.remove();
  }
  return path;
}
