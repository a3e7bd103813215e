import { isAllowedCommand } from '../assuan/allowed-commands.ts';
import { awaitAnswers } from '../assuan/await-answers.ts';
import type { Block } from '../assuan/block-scanner.ts';
import { writeNow } from '../io/write-now.ts';
import type { LogCallback } from '../log.ts';
import type { AnswersAhead } from './answers-ahead.ts';
import { FORBIDDEN } from './decide-command.ts';
import type { OpenAgent, OpenedAgent } from './open-agent.ts';

/** What GnuPG's programs ask in every session, as far as the answer may be the same in each. */
const USUAL: readonly string[] = [
  ...['ttyname=/dev/null', 'ttytype=dumb', 'display=:0', 'xauthority=/dev/null', 'pinentry-user-data=none'],
  ...['lc-ctype=C', 'lc-messages=C', 'putenv=A=B', 'pinentry-mode=ask', 'agent-awareness=2.1.0'],
  ...['use-cache-for-signing=1', 'pretend-request-origin=none', 'allow-pinentry-notify'],
].map((option) => `OPTION ${option}`);
const KEYS: readonly string[] = ['HAVEKEY --list=1000', 'HAVEKEY --list'];
/** Stands for every key, unless the target may use some only. */
const ANY_KEY = `KEYINFO ${'0'.repeat(40)}`;
/** Newer agents pass it on to the smart card, which nobody has asked for yet. */
const CARD = 'SCD SERIALNO';
const FORBIDS_CARD = /^D 2\.[0-2]\./;

const TIMEOUT_MS = 5_000;

/**
 * Asks the host's agent what GnuPG's programs ask in every session, so that the first of them is served as all others
 * are. One that does not answer is told to the log, and learned from later.
 */
export async function learnUsual(
  agent: { open: OpenAgent },
  answers: AnswersAhead,
  log: LogCallback,
): Promise<void> {
  try {
    const opened = await new Promise<OpenedAgent>((resolve, reject) =>
      agent.open({ opened: (each) => resolve(each), failed: reject }),
    );
    await learnFrom(opened, answers);
  } catch (error) {
    log(`nothing is answered ahead for now: ${(error as Error).message}`, 'info');
  }
}

async function learnFrom({ socket, greeting, identity }: OpenedAgent, answers: AnswersAhead): Promise<void> {
  socket.on('error', () => {}); // shows as a missing answer
  try {
    if (!identity) return;
    answers.connected(identity, greeting.toString('latin1'));
    const usual = [
      ...USUAL,
      ...KEYS,
      ...(answers.narrowed ? [] : [ANY_KEY]),
      ...(FORBIDS_CARD.test(identity.version) ? [CARD] : []),
    ];
    const lines = usual.filter(isAllowed);
    const found = await new Promise<readonly Block[]>((answered, failed) => {
      awaitAnswers(socket, lines.length, TIMEOUT_MS, { answered, failed });
      writeNow(socket, Buffer.from(lines.map((line) => `${line}\n`).join('')));
    });
    // The others never reach the agent: the bridge refuses them itself.
    const refused = usual.filter((line) => !isAllowed(line)).map((line) => [line, FORBIDDEN] as const);
    answers.learnAll([...found.map(({ bytes }, index) => [lines[index]!, bytes] as const), ...refused]);
  } finally {
    socket.destroy();
  }
}

function isAllowed(line: string): boolean {
  return isAllowedCommand(Buffer.from(line, 'latin1'));
}
