import { PassThrough } from 'node:stream';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { ContainerEvent } from './engine.ts';
import { eventNames, eventStream, parseEvent } from './event-stream.ts';

const ID = 'e96a4ba1dd60';

describe('parseEvent', () => {
  it.each([
    [
      'Docker',
      `{"status":"die","id":"${ID}","Type":"container","Action":"die","Actor":{"ID":"${ID}"}}`,
      'die',
    ],
    ['Podman by API', `{"Type":"container","Action":"remove","Actor":{"ID":"${ID}"}}`, 'destroy'],
    ['Podman by command', `{"ID":"${ID}","Name":"x","Status":"died","Type":"container"}`, 'die'],
  ])('reads what %s prints', (_who, line, action) => {
    expect(parseEvent(line)).toEqual({ action, id: ID });
  });

  it.each([
    '',
    'Error: lost connection',
    'null',
    '3',
    `{"Type":"container","Action":"exec_die","Actor":{"ID":"${ID}"}}`,
    `{"Type":"network","Action":"destroy","Actor":{"ID":"${ID}"}}`,
    '{"Type":"container","Action":"die"}',
  ])('passes over %j', (line) => {
    expect(parseEvent(line)).toBeUndefined();
  });
});

describe('eventNames', () => {
  it('gives Podman its own names too', () => {
    const filter = { container: ID, actions: ['start', 'die'] as const };
    expect(eventNames('docker', filter)).toEqual(['start', 'die']);
    expect(eventNames('podman', filter)).toEqual(['start', 'start', 'die', 'died']);
  });
});

describe('eventStream', () => {
  const line = (action: string, id = ID) =>
    `${JSON.stringify({ Type: 'container', Action: action, Actor: { ID: id, Attributes: { label: 'ä' } } })}\n`;

  async function read(input: Buffer, sizes: Iterator<number>): Promise<ContainerEvent[]> {
    const lines = new PassThrough();
    const events = eventStream(lines, { container: ID, actions: ['die', 'start'] }, () => {});
    for (let at = 0; at < input.length; ) {
      const size = sizes.next().value as number;
      lines.write(input.subarray(at, at + size));
      at += size;
    }
    lines.end();
    return events.toArray();
  }

  it('keeps what the filter asks for, however the lines are cut', async () => {
    const input = Buffer.from(line('die') + line('pause') + line('die', 'another') + line('start'));
    await fc.assert(
      fc.asyncProperty(fc.infiniteStream(fc.integer({ min: 1, max: 60 })), async (sizes) => {
        expect(await read(input, sizes)).toEqual([
          { action: 'die', id: ID },
          { action: 'start', id: ID },
        ]);
      }),
      { numRuns: 30 },
    );
  });

  it('ends without an error when the engine goes away', async () => {
    const lines = new PassThrough();
    const events = eventStream(lines, { container: ID, actions: ['die'] }, () => {});
    lines.write(line('die'));
    const read = events[Symbol.asyncIterator]();
    expect(await read.next()).toEqual({ value: { action: 'die', id: ID }, done: false });
    lines.destroy(new Error('read ECONNRESET'));
    expect(await read.next()).toMatchObject({ done: true });
  });

  it('gives up on a line without an end', async () => {
    const lines = new PassThrough();
    const events = eventStream(lines, { container: ID, actions: ['die'] }, () => {});
    lines.write(Buffer.alloc(2 * 1024 * 1024, 'a'));
    expect(await events.toArray()).toEqual([]);
    expect(lines.destroyed).toBe(true);
  });

  it('lets go of the engine when it is destroyed', async () => {
    const lines = new PassThrough();
    const released = new Promise<void>((resolve) => {
      eventStream(lines, { container: ID, actions: ['die'] }, resolve).destroy();
    });
    await released;
  });
});
