import { secondsOf } from '../bridge-options.ts';
import { beginPause, endPause, pausedUntil } from '../daemon/pause.ts';
import { Manager } from '../manager/manager.ts';
import { textFlag } from './flags.ts';
import type { ParsedCommand } from './specs.ts';

/** Pauses every bridge: nothing is signed or decrypted until somebody resumes, or for a time. */
export async function pause({ flags }: ParsedCommand): Promise<number> {
  const time = textFlag(flags, 'for');
  const paused = beginPause(time === undefined ? undefined : secondsOf('for', time));
  await new Manager().tellAll('pause');
  process.stdout.write(
    `Paused: over no bridge is anything signed or decrypted ${pausedUntil(paused)}.\n` +
      'Go on with: gpg-bridge resume\n',
  );
  return 0;
}

/** Ends a pause; none is success. */
export async function resume(): Promise<number> {
  const wasPaused = endPause();
  if (wasPaused) await new Manager().tellAll('pause');
  process.stdout.write(
    wasPaused ? 'Resumed: keys can be used over bridges again.\n' : 'Nothing was paused.\n',
  );
  return 0;
}
