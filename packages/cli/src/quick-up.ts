import { isatty } from 'node:tty';
import { askDaemon, type UpAnswer, type UpRequest } from './daemon/control.ts';
import { checkStateDirectory, controlSockets, stateDirectory } from './daemon/state-dir.ts';
import { CONFIRM_TIMEOUT_MS, confirmEnvironment } from './manager/confirm-environment.ts';
import { isDecorated } from './terminal/style.ts';
import { VERSION } from './version.ts';

/** Variables beside those that decide which engine is meant: where the host's agents are. */
const AGENT_VARIABLES = ['GNUPGHOME', 'SSH_AUTH_SOCK'];

/**
 * What `up` prints of a bridge that runs and is as it is wanted, made by its daemon, which has the code for that loaded
 * already. `unknown`: no daemon says that it has it, or several do; `late`: one has not answered in time.
 */
export async function quickUp(words: readonly string[]): Promise<UpAnswer | 'unknown' | 'late'> {
  const directory = stateDirectory();
  try {
    checkStateDirectory(directory);
  } catch {
    return 'unknown'; // which is told by whoever does it the long way
  }
  const request: UpRequest = {
    version: VERSION,
    words,
    env: confirmEnvironment(AGENT_VARIABLES),
    isDecorated: isDecorated({ isTTY: isatty(1) }),
  };
  const answers = await Promise.all(
    controlSockets(directory).map((control) =>
      askDaemon(control, 'up', CONFIRM_TIMEOUT_MS, { ...request, control }).then(
        (status) => status?.up,
        () => 'late' as const,
      ),
    ),
  );
  const [only, another] = answers.filter((answer) => answer !== undefined);
  if (answers.includes('late')) return 'late';
  return only === undefined || another !== undefined ? 'unknown' : only;
}
