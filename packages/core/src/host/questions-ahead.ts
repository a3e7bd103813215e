import type { OnceEntry } from '../assuan/answer-table.ts';
import type { Block } from '../assuan/block-scanner.ts';
import { type Admission, PASS, type Passage } from '../assuan/command-gate.ts';
import type { PendingOperation } from '../assuan/operation.ts';
import type { AnswersAhead } from './answers-ahead.ts';
import { decideCommand } from './decide-command.ts';
import type { GpgGrant } from './gpg-grant.ts';
import type { TargetUse } from './key-use-attempt.ts';

/** A line that is asked ahead of the client. */
interface AskedLine {
  readonly line: string;
  /** How the rules let it pass. */
  readonly passage: Passage;
}

/** What rules say of a command. */
type Decide = (operation: PendingOperation, block: Buffer) => Admission | Promise<Admission>;

/** Answers that are sent along to one session, in bytes. */
export const MAX_ALONG_BYTES = 65_536;

/** Lines that the agent is asked before the client asks them, as far as the rules let the client's own pass. */
export class QuestionsAhead {
  readonly #lines: readonly AskedLine[];
  /** What the agent is sent. */
  readonly bytes: Buffer;

  constructor(lines: readonly string[], decide: Decide) {
    this.#lines = lines.flatMap((line) => {
      const operation = { command: line.split(' ', 1)[0] ?? '', startedAt: 0 };
      const admission = decide(operation, bytesOf(line));
      return admission instanceof Promise || 'answer' in admission ? [] : [{ line, passage: admission }];
    });
    this.bytes = Buffer.concat(this.#lines.map(({ line, passage }) => passage.instead ?? bytesOf(line)));
  }

  /** How many there are. */
  get count(): number {
    return this.#lines.length;
  }

  /** The answers as the client would have got them; not those beyond what is sent along. */
  entries(answers: readonly Block[], newId: () => number): OnceEntry[] {
    const entries: OnceEntry[] = [];
    let left = MAX_ALONG_BYTES;
    for (const [index, { bytes, word }] of answers.entries()) {
      const { line, passage } = this.#lines[index]!;
      const answer = (word === 'OK' && passage.edit?.(bytes)) || bytes;
      left -= answer.length;
      if (left < 0) break;
      entries.push({ id: newId(), line, answer: answer.toString('latin1') });
    }
    return entries;
  }
}

/** What a target's next session is opened with: the lines that it used lately, as far as it may ask them. */
export class RecentQuestions {
  readonly #answers: AnswersAhead;
  readonly #target: Pick<TargetUse, 'grant'>;
  #made: { lines: readonly string[]; grant: GpgGrant | undefined; questions: QuestionsAhead } | undefined;

  constructor(answers: AnswersAhead, target: Pick<TargetUse, 'grant'>) {
    this.#answers = answers;
    this.#target = target;
  }

  /** Made anew when the lines or the grant are others than before. */
  get questions(): QuestionsAhead {
    const lines = this.#answers.recent;
    const { grant } = this.#target;
    if (this.#made?.lines === lines && this.#made.grant === grant) return this.#made.questions;
    const questions = new QuestionsAhead(lines, (...command) => decideCommand(...command, grant) ?? PASS);
    this.#made = { lines, grant, questions };
    return questions;
  }
}

function bytesOf(line: string): Buffer {
  return Buffer.from(`${line}\n`, 'latin1');
}
