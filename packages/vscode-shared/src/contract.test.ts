import { BridgeError } from '@gpg-bridge/core/errors';
import { describe, expect, it } from 'vitest';
import { type Reply, reply, unwrap } from './contract.ts';

/** What VS Code does to a result on its way from one extension host to another. */
function carry<T>(answer: Reply<T>): Reply<T> {
  return JSON.parse(JSON.stringify(answer));
}

describe('reply and unwrap', () => {
  it('carry a value', async () => {
    expect(unwrap(carry(await reply(async () => ({ response: 'OK\n' }))))).toEqual({ response: 'OK\n' });
  });

  it('carry an error with its code and its three parts', async () => {
    const error = new BridgeError('CONSENT_DENIED', { what: 'no keys', why: 'you said so', fix: 'Say yes.' });
    const answer = carry(await reply(() => Promise.reject(error)));
    let thrown: unknown;
    try {
      unwrap(answer);
    } catch (caught) {
      thrown = caught;
    }
    expect(thrown).toBeInstanceOf(BridgeError);
    expect((thrown as BridgeError).toJSON()).toEqual(error.toJSON());
  });

  it('carry what is no BridgeError as INTERNAL with its words', async () => {
    const answer = carry(
      await reply(() => {
        throw new Error('boom');
      }),
    );
    expect(() => unwrap(answer)).toThrow(expect.objectContaining({ code: 'INTERNAL', why: 'boom' }));
  });

  it('take an answer that is none as a failure', () => {
    expect(() => unwrap(undefined)).toThrow(BridgeError);
  });
});
