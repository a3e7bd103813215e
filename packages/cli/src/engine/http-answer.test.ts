import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { AnswerReader } from './http-answer.ts';

const MAX = 1_000;

/** What comes out of an answer that arrives in pieces of this size. */
function read(text: string, size = text.length, ends = false) {
  const reader = new AnswerReader(MAX);
  const bytes = Buffer.from(text, 'latin1');
  for (let at = 0; at < bytes.length; at += size) {
    const answer = reader.push(bytes.subarray(at, at + size));
    if (answer) return { status: answer.status, body: answer.body.toString('latin1') };
  }
  const answer = ends ? reader.end() : undefined;
  return answer && { status: answer.status, body: answer.body.toString('latin1') };
}

const chunked = (pieces: readonly string[], trailer = '') =>
  `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${pieces
    .map((piece) => `${piece.length.toString(16)}\r\n${piece}\r\n`)
    .join('')}0\r\n${trailer}\r\n`;

describe('AnswerReader', () => {
  it('reads a body by its length, whatever follows', () => {
    expect(read('HTTP/1.1 404 Not Found\r\ncontent-LENGTH: 2\r\nX: y\r\n\r\nnomore')).toEqual({
      status: 404,
      body: 'no',
    });
  });

  it('reads an answer without a body', () => {
    expect(read('HTTP/1.1 204 No Content\r\n\r\n')).toEqual({ status: 204, body: '' });
    expect(read('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n')).toEqual({ status: 200, body: '' });
  });

  it('reads a body that goes on to the end of the connection', () => {
    const text = 'HTTP/1.0 200 OK\r\n\r\nall of it';
    expect(read(text)).toBeUndefined();
    expect(read(text, 3, true)).toEqual({ status: 200, body: 'all of it' });
  });

  it('leaves out what comes before the real answer', () => {
    const text = 'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 1\r\n\r\nx';
    expect(read(text, 1)).toEqual({ status: 201, body: 'x' });
  });

  it('reads pieces with extensions and a trailer', () => {
    const text =
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nA;x=y\r\n0123456789\r\n0\r\nX: y\r\n\r\n';
    expect(read(text, 1)).toEqual({ status: 200, body: '0123456789' });
  });

  it('reads the same however it is cut', () => {
    const pieces = fc.array(fc.string({ unit: 'binary-ascii', minLength: 1, maxLength: 40 }), {
      maxLength: 8,
    });
    fc.assert(
      fc.property(pieces, fc.integer({ min: 1, max: 60 }), (body, size) => {
        expect(read(chunked(body), size)).toEqual({ status: 200, body: body.join('') });
      }),
    );
  });

  it('has no answer when the connection ends too early', () => {
    expect(read('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf', 99, true)).toBeUndefined();
    expect(read(chunked(['half']).slice(0, -2), 99, true)).toBeUndefined();
    expect(read('HTTP/1.1 200 OK\r\nContent-', 99, true)).toBeUndefined();
  });

  it('refuses what is no answer, or too long', () => {
    expect(() => read('SSH-2.0-OpenSSH\r\n', 1)).toThrow('no HTTP');
    expect(() => read('HTTP/1.1 OK\r\n\r\n')).toThrow('no HTTP');
    expect(() => read(`HTTP/1.1 200 OK\r\nX: ${'x'.repeat(70_000)}`)).toThrow('no HTTP');
    expect(() => read(chunked(['half']).replace('half', 'half of it'), 1)).toThrow('longer than it said');
    expect(() => read('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n')).toThrow('no size');
    expect(() => read(`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${'1'.repeat(2_000)}`)).toThrow(
      'no end',
    );
    expect(() => read(`HTTP/1.0 200 OK\r\n\r\n${'x'.repeat(MAX + 1)}`)).toThrow('longer than');
    expect(() => read(chunked(['x'.repeat(MAX), 'x']))).toThrow('longer than');
  });
});
