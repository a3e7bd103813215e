import { joinHomes } from '@gpg-bridge/test-support/proxied-homes';
import { expectNoSecret } from '@gpg-bridge/test-support/secrets';
import { describe, expect, it, onTestFinished, vi } from 'vitest';

const HEX = '[0-9a-f]';
const SESSION = `session (${HEX}{8}(?:-${HEX}{4}){3}-${HEX}{12})`;

describe('a log at trace level', () => {
  it('tells each session at both ends by one id, with every state, sizes and times, and no payload', async () => {
    const isTracing = () => true;
    const homes = await joinHomes({ agentConfig: { isTracing }, requestConfig: { isTracing } });
    onTestFinished(() => homes.remove());
    const key = await homes.host.createKey('Ed <ed@example.org>');
    await homes.shareKeys();
    for (let nth = 1; nth <= 2; nth++) {
      const signed = await homes.target.gpg(['-u', key, '--clear-sign'], { input: 'trace me\n' });
      expect(signed.status).toBe(0);
    }
    const sessions = () =>
      [...homes.book.text.matchAll(new RegExp(`^client \\d+: is ${SESSION}$`, 'gm'))].map(([, id]) => id!);
    const ends = () => homes.book.text.match(new RegExp(`^${SESSION}: ended after`, 'gm')) ?? [];
    await vi.waitFor(() => expect(ends()).toHaveLength(2 * sessions().length), { timeout: 30_000 });

    const ids = sessions();
    expect(new Set(ids).size).toBeGreaterThanOrEqual(2);
    for (const id of ids) {
      const lines = homes.book.entries.filter(({ message }) => message.startsWith(`session ${id}: `));
      const text = lines.map(({ message }) => message.slice(`session ${id}: `.length)).join('\n');
      // The host's end, then the target's: each has states of its own.
      expect(text).toMatch(
        /^DISCONNECTED -> CONNECTING_TO_AGENT by CLIENT_CONNECT_REQUESTED, at \d+\.\d ms$/m,
      );
      expect(text).toMatch(/^READY -> SENDING_TO_AGENT by CLIENT_DATA_RECEIVED, \d+ bytes, at \d+\.\d ms$/m);
      expect(text).toMatch(/^WAITING_FOR_AGENT -> READY by AGENT_DATA_RECEIVED, \d+ bytes, at \d+\.\d ms$/m);
      expect(text).toMatch(
        /^WAITING_FOR_AGENT -> SENDING_TO_CLIENT by AGENT_RESPONSE_COMPLETE, \d+ bytes, at/m,
      );
      expect(text).toMatch(/^SENDING_TO_CLIENT -> READY by RESPONSE_OK_OR_ERR, at \d+\.\d ms$/m);
      const ended = [...text.matchAll(/^ended after \d+\.\d ms, (\d+) bytes to the host, (\d+) back$/gm)];
      expect(ended).toHaveLength(2);
      for (const [, toHost, toTarget] of ended) {
        expect(Number(toHost)).toBeGreaterThan(0);
        expect(Number(toTarget)).toBeGreaterThan(0);
      }
    }
    expect(homes.book.text.match(new RegExp(`^${SESSION}: PKSIGN ok, \\d+\\.\\d ms$`, 'gm'))).toHaveLength(2);
    expect(homes.payload.length).toBeGreaterThan(0);
    for (const secret of homes.payload) expectNoSecret(secret, homes.book.text);
  });
});
