import { isatty } from 'node:tty';
import { askDaemon, type UpAnswer, type UpRequest } from './daemon/control.ts';
import { checkStateDirectory, controlSockets, stateDirectory } from './daemon/state-dir.ts';
import type { VariableName } from './environment.ts';
import { CONFIRM_TIMEOUT_MS, confirmEnvironment, mayBeConfirmed } from './manager/confirmable.ts';
import { isDecorated } from './terminal/style.ts';
import { VERSION } from './version.ts';

/** Variables beside those that decide which engine is meant: where the host's agents are. */
const AGENT_VARIABLES = ['GNUPGHOME', 'SSH_AUTH_SOCK'] as const satisfies VariableName[];

/** Words that want more than is printed of a bridge that runs. */
const LONG = /^(?:-h|--help|--verbose|--exec(?:=.*)?)$/s;

/**
 * What `up` prints of a bridge that runs and is as it is wanted, made by its daemon, which has the code for that loaded
 * already. `unknown`: no daemon says that it has it, or several do; `late`: none, and one has not answered in time.
 */
export async function quickUp(words: readonly string[]): Promise<UpAnswer | 'unknown' | 'late'> {
  const mayBe = words.some((word) => !word.startsWith('-') && mayBeConfirmed(word));
  if (!mayBe || words.some((word) => LONG.test(word))) return 'unknown';
  const directory = stateDirectory();
  checkStateDirectory(directory);
  const request: UpRequest = {
    version: VERSION,
    words,
    env: confirmEnvironment(AGENT_VARIABLES),
    isDecorated: isDecorated({ isTTY: isatty(1) }),
  };
  let isLate = false;
  const answers = await Promise.all(
    controlSockets(directory).map((control) =>
      askDaemon(control, 'up', CONFIRM_TIMEOUT_MS, { ...request, control }).then(
        (status) => status?.up,
        () => {
          isLate = true;
        },
      ),
    ),
  );
  const [only, another] = answers.flatMap((answer) => answer ?? []);
  if (only && !another) return only;
  return isLate ? 'late' : 'unknown';
}
