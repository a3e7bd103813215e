import type { HostSshAgent } from '@gpg-bridge/core/host/ssh-agent';
import type { Identity } from '@gpg-bridge/core/ssh/identities';
import { fingerprint } from '@gpg-bridge/core/ssh/key-blob';
import { describe, expect, it } from 'vitest';
import { SshOffers } from './ssh-offers.ts';

const [WORK, HOME] = ['work', 'home'].map((name) => ({
  blob: Buffer.from(name),
  comment: Buffer.from(name),
}));
const KEYS = [WORK!, HOME!];
const BY_COMMENT: Readonly<Record<string, Identity>> = { WORK: WORK!, HOME: HOME! };

/** A gpg-agent whose keygrips are the names of its keys; what it tells can be held back. */
function gpgAgent() {
  const agent = {
    place: 'first',
    told: Promise.resolve(),
    open: async () => ({ socket: { destroy() {} }, place: agent.place }),
    offeredKeys: async () => ({ offered: KEYS, bound: 0, place: agent.place }),
    gpgAgent: async () => {
      await agent.told;
      return { mainSocket: '', isOwn: true };
    },
    fingerprintsOf: async (_agent: unknown, keygrips: ReadonlySet<string>) =>
      new Set([...keygrips].map((grip) => fingerprint(BY_COMMENT[grip]!.blob))),
  };
  return { agent, host: { ...agent, place: async () => agent.place } as unknown as HostSshAgent };
}

const namesOf = (isOffered: (identity: Identity) => boolean) =>
  KEYS.filter(isOffered).map(({ comment }) => comment.toString());

describe('SSH keys under --gpg-key', () => {
  it('are not offered on a connection that another agent has followed', async () => {
    const { agent, host } = gpgAgent();
    const offers = new SshOffers(host, { keygrips: new Set(['WORK']) });
    const { isOffered } = await offers.open({});
    expect(namesOf(isOffered)).toEqual(['work']);
    agent.place = 'second';
    expect(namesOf((await offers.open({})).isOffered)).toEqual(['work']);
    expect(namesOf(isOffered)).toEqual([]);
  });

  it('are not offered by an agent that is not the one which was looked at', async () => {
    const { agent, host } = gpgAgent();
    const offers = new SshOffers(host, { keygrips: new Set(['WORK']) });
    agent.told = Promise.resolve().then(() => {
      agent.place = 'second';
    });
    await expect(offers.open({})).rejects.toMatchObject({ code: 'SSH_AGENT_MISSING' });
  });

  it('are those of a grant that was narrowed while they were looked up', async () => {
    const { agent, host } = gpgAgent();
    const offers = new SshOffers(host, { keygrips: new Set(['WORK', 'HOME']) });
    const narrowed = await offers.look({ keygrips: new Set(['HOME']) });
    let tell = () => {};
    agent.told = new Promise((resolve) => {
      tell = resolve;
    });
    const opening = offers.open({});
    await new Promise(setImmediate); // it waits for what is held back
    narrowed.apply();
    tell();
    expect(namesOf((await opening).isOffered)).toEqual(['home']);
  });

  it('are those that every narrowing leaves', async () => {
    const { host } = gpgAgent();
    const offers = new SshOffers(host, {});
    (await offers.look({ isNamed: ({ blob }) => blob.equals(WORK!.blob) })).apply();
    (await offers.look({ keygrips: new Set(['HOME', 'WORK']) })).apply();
    expect(namesOf((await offers.open({})).isOffered)).toEqual(['work']);
  });
});
