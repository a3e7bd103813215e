/** An HTTP answer whose end has come. */
export interface HttpAnswer {
  status: number;
  body: Buffer;
}

/** Engines send a dozen short headers. */
const MAX_HEAD_BYTES = 65_536;
const MAX_LINE_BYTES = 1_024;
const START_OF_HEAD = 'HTTP/1.';
const END_OF_HEAD = '\r\n\r\n';

/** What is expected next of an answer. */
type Expected = 'head' | 'rest' | 'size' | 'piece' | 'piece-end' | 'trailer' | 'nothing';

/**
 * Reads one answer from a connection, as an engine on a local socket sends it. Node's own parser can more,
 * and takes longer to load than the answer takes.
 */
export class AnswerReader {
  #expected: Expected = 'head';
  #pending: Buffer = Buffer.alloc(0);
  #status = 0;
  readonly #body: Buffer[] = [];
  #length = 0;
  /** Bytes missing of the body, or of a piece of it; Infinity: it goes on to the connection's end. */
  #missing = 0;

  constructor(private readonly maxBytes: number) {}

  /** Takes what has come; returns the answer when that is all of it. Throws at what is no answer. */
  push(chunk: Buffer): HttpAnswer | undefined {
    this.#pending = this.#pending.length > 0 ? Buffer.concat([this.#pending, chunk]) : chunk;
    while (this.#step());
    return this.#expected === 'nothing' ? this.#answer() : undefined;
  }

  /** The answer, if the connection's end is the end of it. */
  end(): HttpAnswer | undefined {
    return this.#expected === 'rest' && this.#missing === Infinity ? this.#answer() : undefined;
  }

  #answer(): HttpAnswer {
    return { status: this.#status, body: Buffer.concat(this.#body) };
  }

  /** Does one step with what is there; false when more is needed for it. */
  #step(): boolean {
    switch (this.#expected) {
      case 'head':
        return this.#takeHead();
      case 'rest':
        return this.#takeBody('nothing');
      case 'size':
        return this.#takeSize();
      case 'piece':
        return this.#takeBody('piece-end');
      case 'piece-end': {
        const line = this.#takeLine('size');
        if (line) throw new Error('a piece of the answer is longer than it said');
        return line !== undefined;
      }
      case 'trailer': {
        const line = this.#takeLine('trailer');
        if (line === '') this.#expected = 'nothing';
        return line !== undefined;
      }
      case 'nothing':
        return false;
    }
  }

  #takeHead(): boolean {
    // Whoever speaks otherwise may well wait for an answer: its first bytes tell.
    const start = this.#pending.toString('latin1', 0, START_OF_HEAD.length);
    if (!START_OF_HEAD.startsWith(start)) throw new Error('what it sent is no HTTP');
    const end = this.#pending.indexOf(END_OF_HEAD);
    if (end < 0) {
      if (this.#pending.length > MAX_HEAD_BYTES) throw new Error('what it sent is no HTTP');
      return false;
    }
    const head = this.#pending.toString('latin1', 0, end);
    this.#pending = this.#pending.subarray(end + END_OF_HEAD.length);
    const [, status] = /^HTTP\/1\.\d (\d{3})(?: |\r|$)/.exec(head) ?? [];
    if (status === undefined) throw new Error('what it sent is no HTTP');
    this.#status = Number(status);
    const [, length] = /^content-length:[ \t]*(\d+)[ \t]*$/im.exec(head.replaceAll('\r', '')) ?? [];
    if (this.#status < 200) return true; // the real one follows
    if (/^transfer-encoding:.*\bchunked\b/im.test(head)) this.#expected = 'size';
    else {
      this.#expected = 'rest';
      this.#missing = this.#status === 204 ? 0 : length === undefined ? Infinity : Number(length);
      if (this.#missing === 0) this.#expected = 'nothing';
    }
    return true;
  }

  #takeSize(): boolean {
    const line = this.#takeLine('piece');
    if (line === undefined) return false;
    const [, size] = /^([0-9a-f]{1,8})[ \t]*(?:;|$)/i.exec(line) ?? [];
    if (size === undefined) throw new Error('a piece of the answer has no size');
    this.#missing = Number.parseInt(size, 16);
    if (this.#missing === 0) this.#expected = 'trailer';
    return true;
  }

  #takeBody(next: Expected): boolean {
    const piece = this.#pending.subarray(0, this.#missing);
    if (piece.length === 0) return false;
    this.#pending = this.#pending.subarray(piece.length);
    this.#missing -= piece.length;
    this.#length += piece.length;
    if (this.#length > this.maxBytes) throw new Error(`the answer is longer than ${this.maxBytes} bytes`);
    this.#body.push(piece);
    if (this.#missing === 0) this.#expected = next;
    return true;
  }

  #takeLine(next: Expected): string | undefined {
    const end = this.#pending.indexOf('\r\n');
    if (end < 0) {
      if (this.#pending.length > MAX_LINE_BYTES) throw new Error('a piece of the answer has no end');
      return undefined;
    }
    const line = this.#pending.toString('latin1', 0, end);
    this.#pending = this.#pending.subarray(end + 2);
    this.#expected = next;
    return line;
  }
}
