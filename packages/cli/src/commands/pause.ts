import { BridgeError } from '@gpg-bridge/core/errors';
import { secondsOf } from '../bridge-options.ts';
import type { DaemonStatus } from '../daemon/control.ts';
import { beginPause, currentPause, endPause, pausedUntil, pausePath } from '../daemon/pause.ts';
import { Manager } from '../manager/manager.ts';
import { operandWords } from '../targets/operand-words.ts';
import { textFlag } from './flags.ts';
import type { ParsedCommand } from './specs.ts';

/** Pauses every bridge: nothing is signed or decrypted until somebody resumes, or for a time. */
export async function pause({ flags }: ParsedCommand): Promise<number> {
  const time = textFlag(flags, 'for');
  const paused = beginPause(time === undefined ? undefined : secondsOf('for', time));
  const told = await new Manager().tellAll('pause');
  const missed = told.filter((status) => !status.paused && status.state !== 'ending');
  if (currentPause() && missed[0]) throw notPaused(missed[0], missed.length - 1);
  process.stdout.write(
    `Paused: over no bridge is anything signed or decrypted ${pausedUntil(paused)}.\n` +
      'Go on with: gpg-bridge resume\n',
  );
  return 0;
}

/** The error for bridges whose daemons look for a pause in another directory. */
function notPaused({ target, options }: DaemonStatus, more: number): BridgeError {
  const others = more === 0 ? '' : ` and ${more} more`;
  return new BridgeError('STATE_DIR_UNUSABLE', {
    what: `the bridge to ${target}${others} can still be used`,
    why: `it does not look at ${pausePath()}: XDG_STATE_HOME or HOME was another one when it was started; every other bridge is paused`,
    fix: `End it with \`gpg-bridge down ${operandWords(target, options)}\`.`,
  });
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
