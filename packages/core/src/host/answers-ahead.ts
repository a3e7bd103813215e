import { isAllowedCommand } from '../assuan/allowed-commands.ts';
import {
  type AnswerTable,
  exactly,
  MAX_AHEAD_LINE,
  NO_TABLE,
  type TableEntry,
} from '../assuan/answer-table.ts';
import { DIGESTS } from '../assuan/digests.ts';
import { describeError, errorValueOf, GPG_ERROR } from '../assuan/error-codes.ts';
import { isKeyUse } from '../assuan/private-key-commands.ts';
import { type LogCallback, noLog } from '../log.ts';
import type { AgentIdentity } from './open-agent.ts';

/** How answers are learned. */
export interface AnswersAheadOptions {
  log?: LogCallback | undefined;
  /** Called whenever the table has changed. */
  onChange?: (() => void) | undefined;
  /** Whether the target may use some keys only: what is answered about one then holds for that one alone. */
  narrowed?: boolean | undefined;
}

interface KnownEntry extends TableEntry {
  readonly fits: RegExp;
}

/** Entries that are learned, beyond the settings; nobody's programs have as many. */
const MAX_LEARNED = 128;
/** Entries that were forgotten, and that a target may still have used. */
const MAX_FORGOTTEN = 512;
/** The HAVEKEY and KEYINFO lines of a target that are asked for its next session, at most. */
const MAX_RECENT = 64;
/** Keys of one HAVEKEY line that KEYINFO may follow for, and of all of them together. */
const MAX_FOLLOWED = 4;
const MAX_FOLLOWERS = 256;
/** How often such a KEYINFO is asked that the target did not use: not for every client that will never ask it. */
const MAX_UNUSED = 8;

const HEX = '[0-9A-Fa-f]';
/** Text without control characters that begins with something visible. */
const TEXT = '[!-\xff][ -\xff]*';
const OK = 'OK\n';

/** Settings that are answered OK on trust, in exactly these shapes; the agent's own answer is compared. */
const SETTINGS: readonly string[] = [
  exactly('RESET'),
  `^SIGKEY ${HEX}{40}$`,
  `^SETKEY ${HEX}{40}$`,
  '^SETKEYDESC [!-\xff]+$',
  // POSIX allows at most 255 repetitions.
  ...DIGESTS.map(({ number, hexDigits }) => `^SETHASH ${number} ${HEX}{${hexDigits}}$`),
];

const NAMED_OPTION = /^OPTION ([A-Za-z][A-Za-z0-9-]*)=[!-\xff][ -\xff]*$/;
const BARE_OPTION = /^OPTION [A-Za-z][A-Za-z0-9-]*$/;
const ONE_KEYINFO = /^KEYINFO [0-9A-Fa-f]{40}$/;
/** What may be asked ahead of a client: one spelling, so that the rules see the command that they would have seen. */
const ASKED_ALONG = /^(?:HAVEKEY|KEYINFO) [ -~]+$/;
const HAS_KEYS = /^HAVEKEY((?: [0-9A-Fa-f]{40})+)$/;
const LISTS_KEYS = /^HAVEKEY --list(?:=[0-9]+)?$/;
/** A line that is kept as it is: printable, so that its pattern means the same to every runtime. */
const PLAIN = /^[A-Z][ -~]*$/;
const CODE_MASK = 0xffff;
const UPPER_E = 0x45;
/** Errors to an OPTION that don't depend on its value. */
const OF_THE_NAME: ReadonlySet<number> = new Set([GPG_ERROR.FORBIDDEN, GPG_ERROR.UNKNOWN_OPTION]);

/**
 * What a target's end may answer in place of the host's agent: learned from real answers, which depend on the agent's
 * process and the line alone, and a few settings. Another agent empties it; an answer that was told and turned out
 * otherwise is forgotten.
 */
export class AnswersAhead {
  /** Whether the target may use some keys only. */
  readonly narrowed: boolean;
  readonly #log: LogCallback;
  readonly #onChange: () => void;
  #identity: AgentIdentity | undefined;
  #greeting = '';
  /** By pattern. */
  readonly #entries = new Map<string, KnownEntry>();
  readonly #byId = new Map<number, KnownEntry>();
  readonly #forgotten: number[] = [];
  /** In the order in which they were used, as far as that says which one has to go next. */
  readonly #recent = new Set<string>();
  #recentLines: readonly string[] | undefined;
  /** KEYINFO lines that were asked since they may follow what a client asked, and how often. */
  readonly #followed = new Map<string, number>();
  #lastId = 0;
  #version = 0;

  constructor({ log = noLog, onChange, narrowed = false }: AnswersAheadOptions) {
    this.#log = log;
    this.#onChange = () => {
      this.#version++;
      onChange?.();
    };
    this.narrowed = narrowed;
  }

  /** Another number for every table. */
  get version(): number {
    return this.#version;
  }

  /** What the target's end answers now. */
  get table(): AnswerTable {
    return this.#greeting === ''
      ? NO_TABLE
      : { greeting: this.#greeting, entries: [...this.#entries.values()] };
  }

  /** The entry with this id if it fits the line, whether it still holds or not: a target may have used it before. */
  entryFor(id: number, line: string): TableEntry | undefined {
    const entry = this.#byId.get(id);
    return entry?.fits.test(line) ? entry : undefined;
  }

  /** An id for an answer that is sent along. */
  newId(): number {
    this.#lastId += 1;
    return this.#lastId;
  }

  /** A connection was opened; true: to another agent than before, and nothing that was learned holds any more. */
  connected({ version, socket }: AgentIdentity, greeting: string): boolean {
    const before = this.#identity;
    if (before?.version === version && before.socket === socket && this.#greeting !== '') return false;
    if (before) this.#log('gpg-agent is another one than before: its answers are learned anew', 'info');
    this.#identity = { version, socket };
    this.#greeting = greeting;
    this.#followed.clear();
    for (const { pattern } of [...this.#entries.values()]) this.#remove(pattern);
    for (const pattern of SETTINGS) this.#add(pattern, OK);
    this.#add(exactly('GETINFO version'), version, false);
    // As a session's first command it is how a listener is identified: the agent itself answers that.
    this.#add(exactly('GETINFO restricted'), OK, true);
    this.#onChange();
    return true;
  }

  /**
   * An agent answered a command: the answer is kept if it depends on nothing but the line. What must not reach the agent
   * is answered by the bridge, and a target could fill the table with such lines.
   */
  learn(line: string, answer: Buffer): void {
    if (isAllowedCommand(Buffer.from(line, 'latin1')) && this.#learned(line, answer)) this.#onChange();
  }

  /** The same for commands that the host chose. */
  learnAll(answered: readonly (readonly [line: string, answer: Buffer])[]): void {
    const learned = answered.filter(([line, answer]) => this.#learned(line, answer));
    if (learned.length > 0) this.#onChange();
  }

  #learned(line: string, answered: Buffer): boolean {
    if (answered.length > MAX_AHEAD_LINE || !mayBeLearned(line, answered)) return false;
    const answer = answered.toString('latin1');
    if (this.#greeting === '' || this.#entries.size >= MAX_LEARNED + SETTINGS.length) return false;
    const pattern = learnablePattern(line, answer, this.narrowed);
    if (pattern === undefined || this.#entries.has(pattern)) return false;
    this.#add(pattern, answer);
    return true;
  }

  /** What was told turned out otherwise: it is not told again. */
  differed(entry: { id: number; answer: string }, answer: string): void {
    const known = this.#byId.get(entry.id);
    if (known && this.#entries.get(known.pattern) === known) {
      this.#remove(known.pattern);
      this.#onChange();
    }
    this.#log(
      `gpg-agent answered ${nameOf(known)} with ${inWords(answer)}, and the client had been told ${inWords(entry.answer)}`,
      'warn',
    );
  }

  /** The target used a line, which is asked for its next session if it may be. */
  used(line: string): void {
    if (!isAllowedCommand(Buffer.from(line, 'latin1'))) return;
    if (this.#recent.size < MAX_RECENT && this.#recent.has(line)) return;
    // One of these is in no entry; see `#add`.
    if (!this.#recent.delete(line) && (!ASKED_ALONG.test(line) || this.#isKnown(line))) return;
    this.#recent.add(line);
    this.#recentLines = undefined;
    if (this.#recent.size <= MAX_RECENT) return;
    const [oldest = ''] = this.#recent;
    this.#recent.delete(oldest);
  }

  /** The HAVEKEY and KEYINFO lines that the target used lately; the same list as long as they are the same. */
  get recent(): readonly string[] {
    this.#recentLines ??= [...this.#recent];
    return this.#recentLines;
  }

  /** What gpg may ask next about the keys of a line; what the target has used is among the recent ones. */
  followers(line: string): readonly string[] {
    const grips = HAS_KEYS.exec(line)?.[1]?.trim().split(' ') ?? [];
    if (grips.length > MAX_FOLLOWED || this.#followed.size >= MAX_FOLLOWERS) return [];
    const lines = grips.map((grip) => `KEYINFO ${grip}`);
    return lines.filter((each) => {
      const times = this.#followed.get(each) ?? 0;
      if (times >= MAX_UNUSED || this.#recent.has(each) || this.#isKnown(each)) return false;
      this.#followed.set(each, times + 1);
      return true;
    });
  }

  #isKnown(line: string): boolean {
    for (const { fits } of this.#entries.values()) if (fits.test(line)) return true;
    return false;
  }

  #add(pattern: string, answer: string, notFirst = false): void {
    const entry = { id: this.newId(), pattern, answer, notFirst, fits: new RegExp(pattern) };
    this.#entries.set(pattern, entry);
    this.#byId.set(entry.id, entry);
    for (const line of this.#recent) if (entry.fits.test(line)) this.#recent.delete(line);
    this.#recentLines = undefined;
  }

  #remove(pattern: string): void {
    const entry = this.#entries.get(pattern);
    if (!entry) return;
    this.#entries.delete(pattern);
    this.#forgotten.push(entry.id);
    while (this.#forgotten.length > MAX_FORGOTTEN) this.#byId.delete(this.#forgotten.shift()!);
  }
}

/** The pattern under which an answer is kept, if it may be. */
function learnablePattern(line: string, answer: string, narrowed: boolean): string | undefined {
  const isOneLine = answer.indexOf('\n') === answer.length - 1;
  if (line.length > MAX_AHEAD_LINE || !isOneLine) return undefined;
  // Other errors may be about the value.
  if (answer.startsWith('OK') || OF_THE_NAME.has(codeOf(answer))) {
    const name = NAMED_OPTION.exec(line)?.[1];
    if (name !== undefined) return `^OPTION ${name}=${TEXT}$`;
    if (BARE_OPTION.test(line)) return exactly(line);
  }
  if (!isRefusal(line, answer) || !PLAIN.test(line)) return undefined;
  const [word = ''] = line.split(' ', 1);
  if (isKeyUse(word.toUpperCase())) return undefined;
  return ONE_KEYINFO.test(line) && !narrowed ? `^KEYINFO ${HEX}{40}$` : exactly(line);
}

/** Forbidden on the extra socket; or, to an older agent, a request that it does not know the parameter of. */
function isRefusal(line: string, answer: string): boolean {
  const code = codeOf(answer);
  return code === GPG_ERROR.FORBIDDEN || (code === GPG_ERROR.ASSUAN_PARAMETER && LISTS_KEYS.test(line));
}

function codeOf(answer: string): number {
  return (errorValueOf(answer) ?? 0) & CODE_MASK;
}

/** A cheap look at an answer that most often is nothing to learn. */
function mayBeLearned(line: string, answer: Buffer): boolean {
  return answer[0] === UPPER_E || line.startsWith('OPTION ');
}

/** The command of an entry for a log, without its argument. */
function nameOf(entry: TableEntry | undefined): string {
  return /^\^([A-Z]+)/.exec(entry?.pattern ?? '')?.[1] ?? 'a command';
}

/** An answer for a log: never what it says, only how it ends. */
function inWords(answer: string): string {
  const last = answer.slice(answer.lastIndexOf('\n', answer.length - 2) + 1);
  const value = errorValueOf(last);
  if (value !== undefined) return describeError(value);
  return last === answer ? (/^[A-Z]+/.exec(last)?.[0] ?? 'something else') : 'other data';
}
