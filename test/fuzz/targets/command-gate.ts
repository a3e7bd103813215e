import { CommandGate, type GateRules, PASS } from '@gpg-bridge/core/assuan/command-gate';
import { GET_PASSPHRASE, isKeyUse } from '@gpg-bridge/core/assuan/private-key-commands';
import { type AheadOutlets, AheadSession } from '@gpg-bridge/core/host/ahead-session';
import { AnswersAhead } from '@gpg-bridge/core/host/answers-ahead';
import { decideCommand } from '@gpg-bridge/core/host/decide-command';
import type { GpgGrant } from '@gpg-bridge/core/host/gpg-grant';
import { type FuzzTarget, mayFail, must } from '../engine/target.ts';
import { AgentModel } from './agent-model.ts';

const GRIP = 'A'.repeat(40);
const OTHER_GRIP = 'B'.repeat(40);
const USES: ReadonlySet<string> = new Set(['PKSIGN', 'PKDECRYPT', 'PKAUTH', GET_PASSPHRASE]);

/**
 * A session of a client that sends what it likes. The input's first byte says what was granted; then steps follow:
 * a byte below 192 and as many bytes of the client, 192 and more for what the agent says next.
 */
function session(input: Buffer): void {
  const [how = 0] = input;
  const grant: GpgGrant = {
    ...(how & 1 ? { keygrips: new Set([GRIP]) } : {}),
    ...(how & 2 ? { decrypt: false } : {}),
  };
  const isNarrowed = (how & 3) !== 0;
  const isAhead = (how & 4) !== 0;
  let sent = Buffer.alloc(0);
  let steps = 0;
  /** Uses that are on record, and not known to have been asked for. */
  const recorded: string[] = [];
  const agent = new AgentModel({
    answer(command) {
      const choice = input[(steps * 7) % Math.max(1, input.length)] ?? 0;
      if (/^(?:PKDECRYPT|SETHASH)$/.test(command) && choice % 2 === 0) return 'inquire';
      return choice % 5 === 0 ? 'ERR' : choice % 3 === 0 ? 'data' : 'OK';
    },
    // Told lines go to the agent together, and so does what is asked along; a use never does.
    mayOverlap: (command) => isAhead && !USES.has(command),
    carriedOut(command, key) {
      must(command !== GET_PASSPHRASE, 'a passphrase was asked for');
      must(!(command === 'PKDECRYPT' && grant.decrypt === false), 'it decrypts and may not');
      if (!USES.has(command)) return;
      // A word that only looks like a use is on record as well, and the agent does not know it.
      must(recorded.splice(0).at(-1) === command, `${command} is not on record`);
      if (grant.keygrips) must(key === GRIP, `${command} with a key that was not granted`);
    },
  });
  const rules: GateRules = {
    admit(operation, block) {
      const decided = decideCommand(operation, block, grant);
      if (decided) return decided;
      if (isKeyUse(operation.command)) recorded.push(operation.command);
      return PASS;
    },
    finished: () => undefined,
  };
  const out = {
    toAgent: (bytes: Buffer) => agent.read(bytes),
    toClient() {},
    toClientInTurn() {},
    endAgent() {},
    resume() {},
    broken(error: Error) {
      throw error;
    },
  };
  const told: Buffer[] = [];
  const ahead = isAhead ? aheadSession(rules, out, () => told.splice(0)) : undefined;
  const gate = ahead?.gate ?? new CommandGate(rules, out, { now: () => 0 });
  const session = ahead ?? gate;
  // An inquiry in answer to one of several lines ends the session.
  const endings = ['LINE_TOO_LONG', 'BAD_INQUIRY_DATA', ...(isAhead ? ['BAD_RESPONSE'] : [])];
  const isFine = mayFail(endings, () => {
    for (let at = 1; at < input.length; steps++) {
      const step = input[at]!;
      at += 1;
      if (step >= 192) {
        session.fromAgent(agent.speak(step - 191));
        continue;
      }
      const chunk = Buffer.from(input.subarray(at, at + step));
      at += step;
      sent = Buffer.concat([sent, chunk]);
      // A target may say of any line that it has answered it.
      if (isAhead && step % 3 === 0) told.push(Buffer.of(0, 0, 0, step % 24));
      session.fromClient(chunk);
      chunk.fill(0x21); // the bytes are the caller's again
    }
    for (let left = 200; agent.hasMore && left > 0; left--, steps++) session.fromAgent(agent.speak(1_000));
  });
  gate.end();
  if (!isNarrowed && !isAhead)
    must(
      isSubsequence(withoutCancel(agent.received, isFine), sent),
      'the agent got bytes that no client sent',
    );
  if (isFine) must(gate.pending === undefined, 'a command is pending after the end');
}

/** A session whose target answers ahead: with the answers that every bridge begins with. */
function aheadSession(rules: GateRules, out: AheadOutlets, takeTold: () => Buffer[]): AheadSession {
  const answers = new AnswersAhead({ onChange: () => {} });
  answers.connected({ version: 'D 2.2.40\nOK\n', socket: 's' }, 'OK Pleased to meet you\n');
  return new AheadSession({ answers, rules, out, takeTold, now: () => 0 });
}

/** What came of the client: the bridge's own CAN is the last of a session that it ends. */
function withoutCancel(received: Buffer, isFine: boolean): Buffer {
  const cancel = 'CAN\n';
  const isCancelled = !isFine && received.toString('latin1').endsWith(cancel);
  return isCancelled ? received.subarray(0, -cancel.length) : received;
}

/** Whether a text is another one with parts left out. */
function isSubsequence(part: Buffer, whole: Buffer): boolean {
  let at = 0;
  for (const byte of part) {
    at = whole.indexOf(byte, at) + 1;
    if (at === 0) return false;
  }
  return true;
}

const step = (text: string) => `${String.fromCharCode(text.length)}${text}`;
const AGENT = '\xff\xff';

/** The gate between a client and gpg-agent. */
export const commandGate: FuzzTarget = {
  name: 'command-gate',
  maxLength: 3_000,
  seeds: [
    `\x04${AGENT}${step(`RESET\nSIGKEY ${GRIP}\nSETKEYDESC x\nSETHASH 8 ${'0'.repeat(64)}\nPKSIGN\n`)}${AGENT.repeat(6)}`,
    `\x00${AGENT}${step('NOP\nRESET\n')}${AGENT}${AGENT}${step(`SIGKEY ${GRIP}\n`)}${AGENT}${step('PKSIGN\n')}${AGENT}`,
    `\x01${AGENT}${step(`SETKEY ${GRIP}\nPKDECRYPT\nD x\nEND\nHAVEKEY ${OTHER_GRIP} ${GRIP}\nBYE\n`)}${AGENT}${AGENT}`,
    `\x02${AGENT}${step('GET_PASSPHRASE x\npksign\nPKDECRYPT\n')}${AGENT}${step('D a\nCAN\n')}`,
    `\x00${AGENT}${step('PKDECRYPT\n')}${AGENT}${step(`D ${'x'.repeat(180)}`).repeat(6)}${step('\nEND\nPKSIGN\n')}`,
  ],
  words: [
    'PKSIGN\n',
    'PKDECRYPT\n',
    'GET_PASSPHRASE x\n',
    'get_passphrase\x00\n',
    `SIGKEY ${GRIP}\n`,
    `SETKEY ${OTHER_GRIP}\n`,
    `HAVEKEY ${GRIP}\n`,
    'KEYINFO --list\n',
    'RESET\n',
    'SETHASH --inquire\n',
    'INPUT FD=5\n',
    'END\n',
    'D %',
    '%4',
    'CAN\n',
    'D ',
    '# ',
    'BYE\n',
    '\x00',
    '\xff',
    step('x'.repeat(191)).repeat(6),
  ],
  run: session,
};
