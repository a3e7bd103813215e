import { type AheadReply, NO_TABLE, type OnceEntry, type ToldBlock } from '../assuan/answer-table.ts';
import { isKeyUse } from '../assuan/private-key-commands.ts';
import type { AgentSession } from './agent-session.ts';
import type { AnswersAhead } from './answers-ahead.ts';
import { MAX_ALONG_BYTES } from './questions-ahead.ts';
import { ToldAnswers, UNKNOWN_TOLD } from './told-answers.ts';

/** What a command brings back. */
export interface Exchanged {
  response: Buffer;
  ahead: AheadReply;
}

const CANCEL = 'CAN\n';
const NOTHING = Buffer.alloc(0);
const NO_ENTRIES: readonly OnceEntry[] = [];

/**
 * One session whose target answers ahead, where the carrier is calls: told lines come with the command that waits.
 * Each of them goes to the agent and is compared before the command does; see `ToldAnswers`.
 */
export class AheadExchange {
  readonly #session: AgentSession;
  readonly #answers: AnswersAhead;
  readonly #check: ToldAnswers;
  readonly #isOn: () => boolean;
  #hasWaited = false;

  /** `isOn` says whether targets are to answer ahead at this moment. */
  constructor(session: AgentSession, answers: AnswersAhead, isOn: () => boolean) {
    this.#session = session;
    this.#isOn = isOn;
    this.#answers = answers;
    this.#check = new ToldAnswers(answers);
  }

  /** Sends told lines and then one command or inquiry block, which may be missing at a client's end. */
  async send(block: string, { table, told, lines }: ToldBlock): Promise<Exchanged> {
    let at = 0;
    for (const id of told) {
      const end = lines.indexOf('\n', at) + 1;
      if (end === 0) break;
      await this.#compare(id, lines.slice(at, end));
      at = end;
    }
    if (block === '') return { response: NOTHING, ahead: {} };
    const isCommand = this.#session.expected === 'command';
    const command = isCommand ? wordOf(block) : '';
    const refusal = isCommand ? this.#check.refusalOf(command) : undefined;
    if (refusal) return { response: refusal, ahead: this.reply(table) };
    const asked = this.#linesAlong(block, command);
    const along = asked.length > 0 ? await this.#askAlong(asked) : NO_ENTRIES;
    const response = await this.#session.send(block);
    if (isCommand) this.#learn(block, command, response);
    return { response, ahead: this.reply(table, along) };
  }

  /** What a target gets that has this version of the table. */
  reply(version: number, along = NO_ENTRIES): AheadReply {
    if (!this.#isOn()) return version === 0 ? {} : { table: { ...NO_TABLE, version: 0 } };
    if (this.#answers.version === version && along.length === 0) return {};
    const table = this.#answers.version === version ? undefined : this.#answers.table;
    return {
      ...(table ? { table: { ...table, version: this.#answers.version } } : {}),
      ...(along.length > 0 ? { along } : {}),
    };
  }

  async #compare(id: number, sent: string): Promise<void> {
    const line = sent.slice(0, -1);
    const command = wordOf(sent);
    const told = this.#check.find(id, line, command);
    if (!told) {
      this.#check.compare(UNKNOWN_TOLD, 'OK\n', true);
      return;
    }
    let answer = (await this.#session.send(sent)).toString('latin1');
    const hasInquired = this.#session.expected === 'inquiry';
    if (hasInquired) answer = (await this.#session.send(CANCEL)).toString('latin1');
    if (command === 'RESET' && isOk(answer)) this.#check.wasReset();
    this.#check.compare(told, answer, hasInquired);
  }

  /** What is asked before a command that waits, so that its answers are there when the client asks it. */
  #linesAlong(block: string, command: string): readonly string[] {
    const isFirst = !this.#hasWaited;
    this.#hasWaited = true;
    if (!this.#isOn() || command === '' || command === 'BYE' || isKeyUse(command)) return [];
    const waiting = block.slice(0, -1);
    // The line itself may come again in this session.
    if (isFirst) this.#answers.used(waiting);
    return [...(isFirst ? this.#answers.recent : []), ...this.#answers.followers(waiting)];
  }

  async #askAlong(lines: readonly string[]): Promise<readonly OnceEntry[]> {
    const along: OnceEntry[] = [];
    let left = MAX_ALONG_BYTES;
    for (const line of lines) {
      const answer = await this.#session.send(`${line}\n`);
      left -= answer.length;
      if (left < 0) break;
      along.push({ id: this.#answers.newId(), line, answer: answer.toString('latin1') });
    }
    this.#check.sentAlong(along);
    return along;
  }

  #learn(block: string, command: string, response: Buffer): void {
    if (command === 'RESET' && isOk(response.toString('latin1', 0, 4))) this.#check.wasReset();
    if (block.indexOf('\n') !== block.length - 1) return;
    const line = block.slice(0, -1);
    this.#answers.used(line);
    this.#answers.learn(line, response);
  }
}

/** The command word of a block in capitals, behind the comments that came with it. */
function wordOf(block: string): string {
  return /^(?:(?:#[^\n]*)?\r?\n)*([A-Za-z_]+)/.exec(block)?.[1]?.toUpperCase() ?? '';
}

function isOk(answer: string): boolean {
  return /^OK[ \r\n]/.test(answer);
}
