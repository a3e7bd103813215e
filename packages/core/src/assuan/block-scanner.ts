import { ChunkList } from '../bytes/chunk-list.ts';
import { BridgeError } from '../errors.ts';
import { CR, LF, LineHead } from './line-head.ts';

/** What a party sends in one turn; `greeting` is the agent's first, unasked for. */
export type BlockKind = 'greeting' | 'command' | 'inquiry' | 'response';

/** One turn of one party, byte for byte. */
export interface Block {
  readonly bytes: Buffer;
  /** First word of the line that ended the block, as it was sent, at most 32 bytes. */
  readonly word: string;
  /** The line that ended the block, without its line end. */
  readonly line: Buffer;
}

/**
 * libassuan's own limit: 1,000 bytes and CR LF, where the CR need not be one. gpg-agent answers a line of
 * 1,001 bytes and LF, and resets the connection for one byte more.
 */
export const MAX_LINE_BYTES = 1001;
/** The largest block unless the owner says otherwise. */
const DEFAULT_MAX_BLOCK_BYTES = 64 * 1024 * 1024;

interface BlockRule {
  /** Who sends it, for messages. */
  sender: string;
  /** Whether `D` lines belong to the block, or are lines like any other. */
  data: boolean;
  /** First words that end the block; without a list, every line that is not blank, a comment or data does. */
  ends?: ReadonlySet<string>;
  /** First words that belong to the block and do not end it. With `ends`, any other word is an error. */
  goesOn?: ReadonlySet<string>;
}

/**
 * What ends a block. Blank and comment lines never do: they get no answer and travel with what follows.
 * In an inquiry the first line that is not data ends it, whatever it is, since the agent answers it.
 * An agent's line outside the two lists would leave the client waiting for ever, so it is an error.
 */
const RULES: Readonly<Record<BlockKind, BlockRule>> = {
  greeting: { sender: 'the agent', data: false },
  command: { sender: 'the client', data: false },
  inquiry: { sender: 'the client', data: true },
  response: {
    sender: 'the agent',
    data: true,
    ends: new Set(['OK', 'ERR', 'INQUIRE']),
    goesOn: new Set(['S', 'D', 'END']),
  },
};

/** Cuts a byte stream into blocks, incrementally: no byte is looked at twice, nothing is changed. */
export class BlockScanner {
  readonly #chunks = new ChunkList();
  readonly #line = new LineHead();
  readonly #maxBlock: number;
  /** Where the line that is being read begins, counted from the front. */
  #lineStart = 0;
  #kind: BlockKind | undefined;
  #failure: BridgeError | undefined;

  constructor({ maxBlock = DEFAULT_MAX_BLOCK_BYTES }: { maxBlock?: number } = {}) {
    this.#maxBlock = maxBlock;
  }

  /** Bytes that have not come out in a block yet. */
  get buffered(): number {
    return this.#chunks.length;
  }

  /** Adds what arrived; the caller must not change these bytes any more. */
  push(chunk: Buffer): void {
    if (this.#failure === undefined) this.#chunks.push(chunk);
  }

  /**
   * The next block of this kind, or undefined until it is complete. The kind may change only after a
   * block came out. Throws LINE_TOO_LONG, BLOCK_TOO_LARGE or BAD_RESPONSE, and the same at every later call.
   */
  next(kind: BlockKind): Block | undefined {
    if (this.#failure) throw this.#failure;
    if (this.#kind !== kind) this.#begin(kind);
    const rule = RULES[kind];
    const line = this.#line;
    const chunks = this.#chunks;
    while (chunks.scan(line)) {
      this.#checkLimits(rule);
      if (this.#endsBlock(rule)) return this.#takeBlock(chunks.scanned);
      this.#lineStart = chunks.scanned;
    }
    if (chunks.scanned === 0) return undefined;
    this.#checkLimits(rule);
    return undefined;
  }

  /** Forgets everything that was pushed, and any failure. */
  clear(): void {
    this.#chunks.clear();
    this.#line.reset();
    this.#lineStart = 0;
    this.#kind = undefined;
    this.#failure = undefined;
  }

  #takeBlock(size: number): Block {
    const block = new ScannedBlock(this.#chunks.take(size), this.#line.word, this.#lineStart);
    this.#lineStart = 0;
    this.#kind = undefined;
    return block;
  }

  #begin(kind: BlockKind): void {
    if (this.#kind !== undefined && this.#chunks.scanned > 0) {
      throw new BridgeError('INTERNAL', {
        what: `cannot read a ${kind}`,
        why: `a ${this.#kind} is half read`,
        fix: 'Please report this as a bug.',
      });
    }
    this.#kind = kind;
  }

  #endsBlock(rule: BlockRule): boolean {
    const line = this.#line;
    if (line.isBlank || line.isComment || (rule.data && line.isData)) return false;
    if (rule.ends === undefined || rule.ends.has(line.word)) return true;
    if (rule.goesOn?.has(line.word)) return false;
    throw this.#fail('BAD_RESPONSE', rule, 'sent a line that is no answer to anything', {
      fix: 'Check that the socket belongs to a gpg-agent, and restart it.',
    });
  }

  #checkLimits(rule: BlockRule): void {
    if (this.#line.length > MAX_LINE_BYTES) {
      throw this.#fail('LINE_TOO_LONG', rule, 'sent a line of more than 1,000 bytes', {
        fix: 'Assuan allows no longer ones: check which program is talking to the socket.',
      });
    }
    if (this.#chunks.scanned > this.#maxBlock) {
      throw this.#fail('BLOCK_TOO_LARGE', rule, `sent more than ${this.#maxBlock} bytes in one turn`, {
        fix: 'Sign or decrypt less at once, or raise the limit.',
      });
    }
  }

  #fail(
    code: 'LINE_TOO_LONG' | 'BLOCK_TOO_LARGE' | 'BAD_RESPONSE',
    rule: BlockRule,
    why: string,
    { fix }: { fix: string },
  ): BridgeError {
    this.#failure = new BridgeError(code, {
      what: 'the session cannot go on',
      why: `${rule.sender} ${why}`,
      fix,
    });
    this.#chunks.clear();
    return this.#failure;
  }
}

class ScannedBlock implements Block {
  constructor(
    readonly bytes: Buffer,
    readonly word: string,
    readonly lineStart: number,
  ) {}

  get line(): Buffer {
    const { bytes } = this;
    const lf = bytes.at(-1) === LF ? bytes.length - 1 : bytes.length;
    return bytes.subarray(this.lineStart, lf > this.lineStart && bytes[lf - 1] === CR ? lf - 1 : lf);
  }
}
