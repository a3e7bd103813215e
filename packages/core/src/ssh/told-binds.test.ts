import { userAuthData } from '@gpg-bridge/test-support/ssh-requests';
import { describe, expect, it } from 'vitest';
import { type Passed, SshAgentFilter, type SshOperation } from './filter.ts';
import { encodeIdentities } from './identities.ts';
import { encodeString } from './key-blob.ts';
import { LIST_MESSAGE, SshMessage } from './messages.ts';
import { sessionBindMessage } from './session-bind.ts';
import { bindFields, bindOf } from './told-binds.ts';

const BIND = sessionBindMessage();
const BLOB = Buffer.from('blob');
const SIGN = SshMessage.of(
  13,
  Buffer.concat([encodeString(BLOB), encodeString(userAuthData(BLOB)), Buffer.alloc(4)]),
).bytes;
const SIGNATURE = SshMessage.of(14, encodeString('signature')).bytes;
const KEYS = encodeIdentities([{ blob: BLOB, comment: Buffer.from('key') }]).bytes;
const [FAILURE, SUCCESS] = [Buffer.of(0, 0, 0, 1, 5), Buffer.of(0, 0, 0, 1, 6)];
const NOTHING: Passed = { toAgent: [], toClient: [] };

function toldOf(...ids: number[]): Buffer {
  const note = Buffer.alloc(4 * ids.length);
  for (const [index, id] of ids.entries()) note.writeUInt32BE(id, 4 * index);
  return note;
}

/** A filter whose client was told an answer to its first messages. */
function told(...ids: number[]) {
  const operations: string[] = [];
  let differences = 0;
  const filter = new SshAgentFilter({
    onOperation: ({ command, outcome }: SshOperation) => operations.push(`${command} ${outcome}`),
    onDiffering: () => differences++,
  });
  filter.told(toldOf(...ids));
  return { filter, operations, differences: () => differences };
}

describe('a bind that the client was told an answer to', () => {
  it('goes to the agent, whose answer goes no further', () => {
    const { filter, operations, differences } = told(6);
    expect(filter.fromClient(Buffer.concat([BIND, LIST_MESSAGE]))).toEqual({
      toAgent: [BIND, LIST_MESSAGE],
      toClient: [],
    });
    expect(filter.fromAgent(SUCCESS)).toEqual(NOTHING);
    expect(filter.fromAgent(KEYS).toClient).toEqual([KEYS]);
    expect(filter.fromClient(SIGN).toAgent).toEqual([SIGN]);
    expect(filter.fromAgent(SIGNATURE).toClient).toEqual([SIGNATURE]);
    expect(operations).toEqual(['session-bind ok', 'list ok', 'sign ok']);
    expect(differences()).toBe(0);
  });

  it('may be refused, if that is what the client was told', () => {
    const { filter, operations } = told(5);
    filter.fromClient(BIND);
    expect(filter.fromAgent(FAILURE)).toEqual(NOTHING);
    expect(filter.fromClient(SIGN).toAgent).toEqual([LIST_MESSAGE]);
    expect(filter.fromAgent(KEYS).toAgent).toEqual([SIGN]);
    expect(operations).toEqual(['session-bind error']);
  });

  it.each([
    [6, FAILURE],
    [5, SUCCESS],
    [6, Buffer.of(0, 0, 0, 2, 6, 0)],
    [0x106, SUCCESS],
  ])('lets nothing be signed if %i was told and the agent says otherwise', (id, answer) => {
    const { filter, operations, differences } = told(id);
    filter.fromClient(Buffer.concat([BIND, LIST_MESSAGE]));
    expect(filter.fromAgent(answer)).toEqual(NOTHING);
    expect(filter.fromAgent(KEYS).toClient).toEqual([KEYS]);
    for (let times = 0; times < 2; times++) {
      expect(filter.fromClient(SIGN)).toEqual({ toAgent: [], toClient: [FAILURE] });
    }
    expect(operations.slice(1)).toEqual(['list ok', 'sign refused', 'sign refused']);
    expect(differences()).toBe(1);
    // Also after a bind that waits, and is answered well.
    filter.fromClient(BIND);
    expect(filter.fromAgent(SUCCESS).toClient).toEqual([SUCCESS]);
    expect(filter.fromClient(SIGN)).toEqual({ toAgent: [], toClient: [FAILURE] });
  });

  it('keeps a signature that was asked for early back until the agent has answered all of them', () => {
    const { filter } = told(6, 6);
    const early = filter.fromClient(Buffer.concat([BIND, BIND, SIGN, LIST_MESSAGE]));
    expect(early.toAgent).toEqual([BIND, BIND]);
    expect(filter.fromAgent(SUCCESS)).toEqual(NOTHING);
    expect(filter.fromAgent(SUCCESS).toAgent).toEqual([LIST_MESSAGE]);
    expect(filter.fromAgent(KEYS)).toEqual({ toAgent: [SIGN, LIST_MESSAGE], toClient: [] });
    expect(filter.fromAgent(Buffer.concat([SIGNATURE, KEYS])).toClient).toEqual([SIGNATURE, KEYS]);
  });

  it('keeps it back for good if one of the answers differs', () => {
    const { filter } = told(6, 6);
    filter.fromClient(Buffer.concat([BIND, BIND, SIGN, LIST_MESSAGE]));
    expect(filter.fromAgent(FAILURE)).toEqual({ toAgent: [LIST_MESSAGE], toClient: [] });
    expect(filter.fromAgent(SUCCESS)).toEqual({ toAgent: [], toClient: [FAILURE] });
  });

  it('is all that may be told: after anything else nothing is signed', () => {
    const { filter, operations } = told(6);
    expect(filter.fromClient(Buffer.concat([SIGN, SIGN]))).toEqual({ toAgent: [], toClient: [FAILURE] });
    expect(operations).toEqual(['sign refused', 'sign refused']);
  });
});

it('what a target is sent is what it reads', () => {
  const entry = bindOf(bindFields(6));
  expect(entry).toMatchObject({ id: 6, answer: SUCCESS });
  expect(BIND.subarray(4, 4 + entry!.begins.length)).toEqual(entry!.begins);
  expect(bindOf(bindFields(undefined))).toBeUndefined();
});
