import { checkOptions, withDeadline, withHostAgents } from '../bridge-options.ts';
import type { AnswerUp } from '../daemon/control-answers.ts';
import { namesRestriction } from '../grants/restrictions.ts';
import { workingInfo } from '../manager/bridge-info.ts';
import { mayBeConfirmed } from '../manager/confirmable.ts';
import { isAsWanted } from '../manager/is-usable.ts';
import { VERSION } from '../version.ts';
import { bridgeOptions } from './flags.ts';
import { parseCommand } from './parse.ts';
import { printedBridge, statusOf } from './up-words.ts';

/** Options that take a file's path, which may begin in a directory that the daemon does not share, or want more words. */
const NOT_HERE = ['ssh-key', 'gpg-socket', 'verbose', 'help'] as const;

/**
 * What `up` prints and returns, in the daemon whose bridge a person's words name: undefined unless it runs, works and is
 * as they want it. Whoever asked then does it the long way, and tells what is wrong.
 */
export const answerUp: AnswerUp = async (request, confirm) => {
  const { version, words, env, isDecorated } = request;
  if (version !== VERSION) return undefined;
  try {
    const { operands, flags } = parseCommand('up', words);
    const [spec] = operands;
    if (NOT_HERE.some((name) => flags[name] !== undefined)) return undefined;
    const options = bridgeOptions('up', flags);
    if (namesRestriction(options)) return undefined; // which is stored, and not by this daemon
    checkOptions(options);
    const given = withDeadline(withHostAgents(options, env));
    if (!mayBeConfirmed(spec, given)) return undefined;
    const status = await confirm({ spec, user: given.user, env, options: given });
    if (!status || !(await isAsWanted(status, given))) return undefined;
    const info = workingInfo(status);
    return {
      printed: printedBridge(info, options, { json: flags.json === true, isDecorated }),
      exitStatus: statusOf(info),
    };
  } catch {
    return undefined;
  }
};
