import { type FuzzTarget, mayFail, must, pieces } from '../engine/target.ts';
import { fileInTar, parseContainerInfo, parseEvent, StdioDemuxer, unexpectedAnswer } from '../product.ts';
import { isHarmless } from './harmless.ts';

const ID = 'a'.repeat(64);

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function demuxed(chunks: readonly Buffer[]): string {
  let told = '';
  let channel = '';
  const demuxer = new StdioDemuxer((name, piece) => {
    if (name !== channel) told += `|${name}:`;
    channel = name;
    told += piece.toString('latin1');
  });
  try {
    for (const chunk of chunks) demuxer.push(chunk);
  } catch (error) {
    must(error instanceof RangeError, `it threw ${error}`);
    told += '|broken';
  }
  return told;
}

/** What an engine's API answers: descriptions, errors, events, exec streams, archives. */
export const engine: FuzzTarget = {
  name: 'engine',
  seeds: [
    `\x00{"Id":"${ID}","Name":"/box","State":{"Running":true},"Config":{"User":"0:0"}}`,
    `\x00{"Type":"container","Action":"die","Actor":{"ID":"${ID}"}}`,
    '\x00{"message":"no such container: \\u001b]0;x"}',
    Buffer.from('\x80\x01\x00\x00\x00\x00\x00\x00\x02hi\x02\x00\x00\x00\x00\x00\x00\x01x', 'latin1'),
    Buffer.concat([
      Buffer.alloc(125),
      Buffer.from('00000000005\x000'.padEnd(388, '\0')),
      Buffer.from('hello'),
    ]),
  ],
  words: [
    '"Id":',
    '"Name":"/',
    '"State":{}',
    '"Config":{"User":',
    '"Actor":',
    '"ID":',
    'null',
    '[]',
    '{}',
    '"Type":"container"',
    '"Action":"die"',
    '\\u001b',
    '\x01\x00\x00\x00',
    '\x02\x00\x00\x00',
    '\x03\x00\x00\x00',
    '00000000010\x00',
    ID,
  ],
  run(input) {
    const chunks = pieces(input);
    const whole = Buffer.concat(chunks);
    must(demuxed(chunks) === demuxed([whole]), 'it depends on where the bytes were cut');
    const file = fileInTar(whole);
    must(file === undefined || file.length <= whole.length, 'a file is larger than its archive');
    const text = whole.toString();
    const event = parseEvent(text);
    must(
      event === undefined || (typeof event.id === 'string' && event.id !== ''),
      'an event of no container',
    );
    const document = parsed(text);
    mayFail(['ENGINE_FAILED'], () => {
      const info = parseContainerInfo('docker', document);
      must(/^[0-9a-f]{64}$/.test(info.id), 'the id is none');
      must(/^[A-Za-z0-9][\w.-]*$/.test(info.name), 'the name is none');
      must(isHarmless(info.user) && !/\s/.test(info.user), 'the user is none');
      must(typeof info.running === 'boolean', 'the state is none');
    });
    const { message } = unexpectedAnswer('docker', 'it', { status: 500, body: document });
    must(isHarmless(message), 'an error would move a cursor');
    must(message.length < 5_000, 'an error is too long to be read');
  },
};
