import { encodeFields } from '@gpg-bridge/core/mux/fields';
import { LIST_MESSAGE } from '@gpg-bridge/core/ssh/messages';
import { sessionBindMessage } from '@gpg-bridge/core/ssh/session-bind';
import { bindFields } from '@gpg-bridge/core/ssh/told-binds';
import type { RunningServer, TestedRuntime } from '@gpg-bridge/test-support/socket-server';
import { CLOSE, EOF, OPEN, TABLE, TOLD, uint32 } from '@gpg-bridge/test-support/wire';
import { expect, it } from 'vitest';
import { Client, Target } from './target.ts';

const SSH = 1;
const SUCCESS = 6;
const ANSWER = Buffer.of(0, 0, 0, 1, SUCCESS);

/** Answering the binds of ssh clients ahead, as docs/protocol.md has it. */
export function aheadSshCases(runtime: TestedRuntime): void {
  async function serve(answerType: number | undefined = SUCCESS, setup = {}) {
    const target = await Target.create(runtime);
    const server = await target.serveSsh(setup);
    server.send(TABLE, SSH, encodeFields(bindFields(answerType)));
    await server.call(['lstat', '/']); // the table has been read once this is answered
    return { target, server };
  }

  async function open({ target, server }: { target: Target; server: RunningServer }) {
    const client = await Client.connect(target.sshSocket);
    const { stream, payload } = await server.next(OPEN);
    expect(payload.toString()).toBe('ssh-agent');
    return { server, client, id: stream };
  }

  const told = async (server: RunningServer, id: number) =>
    (await server.next(TOLD, id)).payload.toString('hex');

  it('answers the binds that a client begins with, and sends them with what follows', async () => {
    const { server, client, id } = await open(await serve());
    const [first, second] = [sessionBindMessage(), sessionBindMessage()];
    for (const byte of first) client.write(Buffer.of(byte));
    expect(await client.take(5)).toEqual(ANSWER);
    client.write(second);
    expect(await client.take(5)).toEqual(ANSWER);
    expect(server.waiting).toEqual([]);
    client.write(LIST_MESSAGE);
    const all = Buffer.concat([first, second, LIST_MESSAGE]);
    expect(await server.data(id, all.length)).toEqual(all);
    expect(await told(server, id)).toBe('0000000600000006');
    // From then on everything waits.
    client.write(first);
    expect(await server.data(id, first.length)).toEqual(first);
    expect(server.waiting).toEqual([]);
  });

  it('answers what the host says, and nothing once it says nothing', async () => {
    const { target, server } = await serve(5);
    const { client } = await open({ target, server });
    client.write(sessionBindMessage());
    expect((await client.take(5)).toString('hex')).toBe('0000000105');
    server.send(TABLE, SSH);
    await server.call(['lstat', '/']);
    const bind = sessionBindMessage();
    const other = await open({ target, server });
    other.client.write(bind);
    expect(await server.data(other.id, bind.length)).toEqual(bind);
    // One that was there before is not answered any more either.
    client.write(bind);
    expect((await server.data(1, 2 * bind.length)).subarray(bind.length)).toEqual(bind);
    expect(await told(server, 1)).toBe('00000005');
  });

  it.each([
    ['another request', LIST_MESSAGE],
    ['another extension', Buffer.concat([uint32(14), Buffer.of(27), uint32(9), Buffer.from('query@foo')])],
    ['a name that only begins so', Buffer.concat([uint32(8), Buffer.of(27), uint32(24), Buffer.from('ses')])],
    ['a message of no bytes', uint32(0)],
    ['a length that can not be', uint32(0xffff_ffff)],
    ['the beginning of a long message', Buffer.concat([uint32(8_189), Buffer.of(27)])],
  ])('lets %s wait', async (_name, bytes) => {
    const { server, client, id } = await open(await serve());
    client.write(bytes);
    expect(await server.data(id, bytes.length)).toEqual(bytes);
    expect(server.waiting).toEqual([]);
  });

  it('keeps some kilobytes at most', async () => {
    const { server, client, id } = await open(await serve());
    const bind = sessionBindMessage();
    const all = Buffer.concat(Array.from({ length: 100 }, () => bind));
    client.write(all);
    expect(await server.data(id, all.length)).toEqual(all);
    const { payload } = await server.next(TOLD, id);
    expect(payload.length).toBe(4 * Math.ceil(8_192 / bind.length));
    expect(await client.take((5 * payload.length) / 4)).toHaveLength((5 * payload.length) / 4);
  });

  it('sends what it has answered before the end of a client', async () => {
    const { server, client, id } = await open(await serve());
    const bytes = Buffer.concat([sessionBindMessage(), Buffer.of(0, 0)]);
    client.socket.end(bytes);
    expect(await server.data(id, bytes.length)).toEqual(bytes);
    expect(await told(server, id)).toBe('00000006');
    await server.next(EOF, id);
    server.send(CLOSE, id);
    expect(await client.take(5)).toEqual(ANSWER);
    await client.end();
  });

  it('answers nothing while the host does not answer', async () => {
    const { target, server } = await serve(SUCCESS, { tickMs: 100, maxUnanswered: 100 });
    const { client, id } = await open({ target, server });
    server.answersPings = false;
    await server.pinged(3);
    const bind = sessionBindMessage();
    client.write(bind);
    expect(await server.data(id, bind.length)).toEqual(bind);
    expect(server.waiting.filter(({ type }) => type === TOLD)).toEqual([]);
  });
}
