import { must } from '../engine/target.ts';

/** Bytes of a line, without its end, that gpg-agent reads at most. */
const LONGEST_LINE = 1_001;
const LF = 0x0a;
const CHOOSES: ReadonlySet<string> = new Set(['SIGKEY', 'SETKEY']);
const GRIP = /^[0-9a-f]{40}(?![0-9a-f])/i;
const KNOWN: ReadonlySet<string> = new Set([
  ...[
    'RESET',
    'BYE',
    'NOP',
    'HELP',
    'OPTION',
    'GETINFO',
    'HAVEKEY',
    'KEYINFO',
    'READKEY',
    'SIGKEY',
    'SETKEY',
  ],
  ...['SETKEYDESC', 'SETHASH', 'PKSIGN', 'PKDECRYPT', 'ISTRUSTED', 'SCD', 'GET_PASSPHRASE'],
]);
const PLAIN = /^[\t -\xff]*$/;
const BROKEN_ESCAPE = /%(?![0-9a-f]{2})/i;

/** What a model of gpg-agent is told to do. */
export interface AgentChoices {
  /** The answer to a command; `inquire` asks for data first. */
  answer(command: string): 'OK' | 'ERR' | 'inquire' | 'data';
  /** Whether a command may come before the answer to the one before it was taken. */
  mayOverlap(command: string): boolean;
  /** Told of every command that it carries out, with the key that is chosen then. */
  carriedOut(command: string, key: string | undefined): void;
}

/**
 * gpg-agent as far as lines go, written from what the real one does and without the code under test: words end at a
 * blank, a tab or a zero byte and have no case. What the real one must never be given fails: a command that no client
 * of GnuPG sends, a line that is too long, an escape that is cut off, a second end of an inquiry.
 */
export class AgentModel {
  readonly #choices: AgentChoices;
  #line: number[] = [];
  #inInquiry = false;
  #isOver = false;
  #key: string | undefined;
  /** What it says and nobody has read yet. */
  #said = Buffer.from('OK Pleased to meet you\n');
  /** How many answers are complete only with bytes that nobody has read. */
  received = Buffer.alloc(0);

  constructor(choices: AgentChoices) {
    this.#choices = choices;
  }

  /** Reads what the bridge sends. */
  read(bytes: Buffer): void {
    this.received = Buffer.concat([this.received, bytes]);
    for (const byte of bytes) {
      if (this.#isOver) return;
      if (byte === LF) this.#endLine();
      else {
        this.#line.push(byte);
        must(this.#line.length <= LONGEST_LINE, 'the agent was given a line that is too long');
      }
    }
  }

  /** The next bytes that it says, at most so many. */
  speak(count: number): Buffer {
    const spoken = this.#said.subarray(0, count);
    this.#said = this.#said.subarray(count);
    return spoken;
  }

  get hasMore(): boolean {
    return this.#said.length > 0;
  }

  #endLine(): void {
    const text = String.fromCharCode(...this.#line).replace(/\r$/, '');
    this.#line = [];
    if (text === '' || text.startsWith('#')) return;
    if (this.#inInquiry) {
      if (/^D /i.test(text)) {
        must(!BROKEN_ESCAPE.test(text), 'the agent was given an escape that is cut off');
        return;
      }
      must(text === 'END' || text === 'CAN', 'the data of an inquiry has another end');
      this.#inInquiry = false;
      this.#say(text === 'END' ? 'D done\nOK\n' : 'ERR 67109141 IPC call has been cancelled <GPG Agent>\n');
      return;
    }
    const [, word = '', argument = ''] = /^([^ \t\0]*)[ \t]*([^\0]*)/s.exec(text) ?? [];
    const command = word.toUpperCase();
    must(KNOWN.has(command) && PLAIN.test(text), `the agent was given ${JSON.stringify(text)}`);
    const isInTurn = this.#said.length === 0 || this.#choices.mayOverlap(command);
    must(isInTurn, `the agent was given ${command} before its last answer was taken`);
    this.#choices.carriedOut(command, this.#key);
    const chosen = this.#choices.answer(command);
    const answer = CHOOSES.has(command) && !GRIP.test(argument) ? 'ERR' : chosen;
    if (answer !== 'ERR') this.#choose(command, argument);
    if (answer === 'inquire') {
      this.#inInquiry = true;
      this.#say('S INQUIRE_MAXLEN 255\nINQUIRE DATA\n');
    } else
      this.#say({ OK: 'OK\n', ERR: 'ERR 67108881 No secret key <GPG Agent>\n', data: 'D 1OK\nOK\n' }[answer]);
    if (command === 'BYE' && answer !== 'ERR') this.#isOver = true;
  }

  #choose(command: string, argument: string): void {
    if (command === 'RESET') this.#key = undefined;
    if (CHOOSES.has(command)) this.#key = GRIP.exec(argument)?.[0].toUpperCase();
  }

  #say(text: string): void {
    this.#said = Buffer.concat([this.#said, Buffer.from(text)]);
  }
}
