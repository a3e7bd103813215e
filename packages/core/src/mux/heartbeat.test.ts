import { once } from 'node:events';
import { bridge, hostAndRaw, targetAndRaw, until } from '@gpg-bridge/test-support/mux-pair';
import { readExactly } from '@gpg-bridge/test-support/socket-pair';
import { OPEN, PING, PONG, READY, wireFrame } from '@gpg-bridge/test-support/wire';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { HEARTBEAT, Heartbeat, type HeartbeatOwner } from './heartbeat.ts';

const TIMES = { tickMs: 100, maxUnanswered: 3, idleTicks: 10 };
const IDLE_MS = TIMES.tickMs * TIMES.idleTicks;

class Owner implements HeartbeatOwner {
  isWaiting = false;
  pings = 0;
  isLost = false;
  ping = () => void this.pings++;
  lost = () => {
    this.isLost = true;
  };
}

describe('a heartbeat', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  function started(isWaiting: boolean) {
    const owner = new Owner();
    owner.isWaiting = isWaiting;
    const heartbeat = new Heartbeat(TIMES, owner);
    heartbeat.start();
    return { owner, heartbeat };
  }

  it('gives a silent line up after its questions, while anything is open', () => {
    const { owner, heartbeat } = started(true);
    vi.advanceTimersByTime(TIMES.tickMs);
    expect(owner.pings).toBe(1);
    expect(heartbeat.isOverdue).toBe(false);
    vi.advanceTimersByTime(TIMES.tickMs * 2);
    expect(owner).toMatchObject({ pings: 3, isLost: false });
    expect(heartbeat.isOverdue).toBe(true);
    vi.advanceTimersByTime(TIMES.tickMs);
    expect(owner).toMatchObject({ pings: 3, isLost: true });
    vi.advanceTimersByTime(IDLE_MS * 100);
    expect(owner.pings).toBe(3);
  });

  it('goes on as long as anything comes', () => {
    const { owner, heartbeat } = started(true);
    for (let tick = 0; tick < 50; tick++) {
      vi.advanceTimersByTime(TIMES.tickMs);
      if (tick % 3 === 2) heartbeat.heard();
    }
    expect(owner.isLost).toBe(false);
  });

  it('asks once in a long while when nothing is open', () => {
    const { owner, heartbeat } = started(false);
    for (let minute = 1; minute <= 20; minute++) {
      vi.advanceTimersByTime(IDLE_MS);
      heartbeat.heard(); // the answer
    }
    // An answer is a sign of life for the time in which it comes.
    expect(owner.pings).toBeGreaterThanOrEqual(1);
    expect(owner.pings).toBeLessThanOrEqual(20);
    expect(owner.isLost).toBe(false);
  });

  it('gives up an idle line in the end, too', () => {
    const { owner } = started(false);
    vi.advanceTimersByTime(IDLE_MS * TIMES.maxUnanswered);
    expect(owner).toMatchObject({ pings: 3, isLost: false });
    vi.advanceTimersByTime(IDLE_MS);
    expect(owner.isLost).toBe(true);
  });

  it('asks soon after something was opened on an idle line, and counts from there', () => {
    const { owner, heartbeat } = started(false);
    vi.advanceTimersByTime(IDLE_MS - 1);
    owner.isWaiting = true;
    heartbeat.wake();
    vi.advanceTimersByTime(TIMES.tickMs);
    expect(owner.pings).toBe(1);
    vi.advanceTimersByTime(TIMES.tickMs * 2);
    expect(owner.isLost).toBe(false);
    vi.advanceTimersByTime(TIMES.tickMs);
    expect(owner.isLost).toBe(true);
  });

  it('is quiet again when the last thing has closed', () => {
    const { owner, heartbeat } = started(true);
    vi.advanceTimersByTime(TIMES.tickMs);
    heartbeat.heard();
    owner.isWaiting = false;
    vi.advanceTimersByTime(TIMES.tickMs);
    const { pings } = owner;
    vi.advanceTimersByTime(IDLE_MS - TIMES.tickMs);
    expect(owner.pings).toBe(pings);
  });

  it('does not take the time for silence in which its own process stood still', () => {
    const { owner, heartbeat } = started(true);
    vi.advanceTimersByTime(TIMES.tickMs);
    heartbeat.heard();
    // One timer that is late by hours is one look.
    vi.setSystemTime(Date.now() + 36_000_000);
    vi.advanceTimersByTime(TIMES.tickMs);
    expect(owner).toMatchObject({ pings: 2, isLost: false });
  });

  it('does nothing after its end', () => {
    const { owner, heartbeat } = started(true);
    heartbeat.stop();
    heartbeat.wake();
    vi.advanceTimersByTime(IDLE_MS * 10);
    expect(owner).toMatchObject({ pings: 0, isLost: false });
  });

  it('answers a session within ten seconds, and costs few bytes a minute', () => {
    const { tickMs, maxUnanswered, idleTicks } = HEARTBEAT;
    expect(tickMs * (maxUnanswered + 1)).toBeLessThan(10_000);
    expect(tickMs * idleTicks).toBeGreaterThanOrEqual(60_000);
  });
});

describe('PING', () => {
  it('is answered with PONG, by either end', async () => {
    const ping = wireFrame(PING, 0);
    const { raw } = await hostAndRaw();
    raw.write(Buffer.concat([wireFrame(READY, 0, '{"version":4}'), ping, ping]));
    expect(await readExactly(raw, 18)).toEqual(Buffer.concat([wireFrame(PONG, 0), wireFrame(PONG, 0)]));
    const { raw: host } = await targetAndRaw();
    host.write(Buffer.concat([ping, wireFrame(PONG, 0)]));
    expect(await readExactly(host, 9)).toEqual(wireFrame(PONG, 0));
  });

  it('is not sent without a heartbeat, nor before READY', async () => {
    const { host, raw } = await hostAndRaw({ heartbeat: { ...TIMES, tickMs: 1 } });
    host.call(['stat', '/']).catch(() => {});
    raw.write(wireFrame(READY, 0, '{"version":4}'));
    await once(host, 'ready');
    const called = await readExactly(raw, 9 + 8 + 5);
    expect(called[4]).not.toBe(PING);
    expect(await readExactly(raw, 9)).toEqual(wireFrame(PING, 0));
  });
});

describe('a line that is dead', () => {
  const heartbeat = { tickMs: 20, maxUnanswered: 2, idleTicks: 5 };

  it('ends the host and its sessions', async () => {
    const { host, raw } = await hostAndRaw({ heartbeat });
    const streamed = once(host, 'stream');
    raw.write(Buffer.concat([wireFrame(READY, 0, '{"version":4}'), wireFrame(OPEN, 1, 'gpg-agent')]));
    const [stream] = await streamed;
    const called = host.call(['stat', '/']);
    const [[error]] = await Promise.all([
      once(host, 'close'),
      expect(called).rejects.toMatchObject({ code: 'LINE_SILENT' }),
    ]);
    expect(error).toMatchObject({ code: 'LINE_SILENT', why: 'nothing came from the target for 0.1 s' });
    expect(stream.failure).toBe(error);
  });

  it('ends the target, also when nothing is open', async () => {
    const { target } = await targetAndRaw({ heartbeat });
    target.ready({ runtime: 'node', system: 'linux', uid: 1, home: '/' });
    const [error] = await once(target, 'close');
    expect(error).toMatchObject({ code: 'LINE_SILENT', why: expect.stringContaining('from the host') });
  });

  it('is another thing than one on which nobody says anything', async () => {
    const both = await bridge({ host: { heartbeat }, target: { heartbeat } });
    await both.open();
    const pings = [vi.spyOn(both.host, 'ping'), vi.spyOn(both.target, 'ping')];
    await until(() => pings.every(({ mock }) => mock.calls.length > 5 * heartbeat.maxUnanswered));
    expect([both.host.closed, both.target.closed]).toEqual([false, false]);
  });
});
