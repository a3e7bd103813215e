import { existsSync } from 'node:fs';
import net from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { TerminalGate, type TerminalReader } from '../engine/terminal-gate.ts';
import { promptSocket, terminalSocket } from './state-dir.ts';
import { TerminalHolds } from './terminal-holds.ts';
import { promptsAreOver, serveTerminal } from './terminal-server.ts';

async function stateDir(): Promise<string> {
  const directory = join(await tempDir(), 'state');
  vi.stubEnv('GPG_BRIDGE_STATE_DIR', directory);
  onTestFinished(() => void vi.unstubAllEnvs());
  return directory;
}

/** A reader that takes its time to stop. */
function slowReader() {
  const events: string[] = [];
  let stopped = () => {};
  const reader: TerminalReader = {
    stop() {
      events.push('stopping');
      return new Promise((resolve) => {
        stopped = () => {
          events.push('stopped');
          resolve();
        };
      });
    },
    goOn: () => void events.push('goes on'),
    end: () => void events.push('is ended'),
  };
  return { reader, events, stopped: () => stopped() };
}

describe('terminals', () => {
  it('cost nothing where there are none', async () => {
    const release = new TerminalHolds(await stateDir(), () => {}).hold();
    expect(release).toBeTypeOf('function'); // nothing is waited for
    await release;
    void (release as () => void)();
  });

  it('are held when nothing is read any more, until they are let go by all', async () => {
    const directory = await stateDir();
    const gate = new TerminalGate(async () => '');
    const { reader, events, stopped } = slowReader();
    gate.readBy(reader);
    const unserve = await serveTerminal(gate);
    onTestFinished(unserve);
    const holds = [new TerminalHolds(directory, () => {}), new TerminalHolds(directory, () => {})];
    let isHeld = false;
    const held = Promise.all(holds.map((one) => one.hold()!)).then((releases) => {
      isHeld = true;
      return releases;
    });
    await expect.poll(() => events).toEqual(['stopping']);
    expect(isHeld).toBe(false);
    stopped();
    const [first, second] = await held;
    first!();
    // A hold after the first was let go: it comes behind that.
    (await holds[0]!.hold()!)();
    expect(events).toEqual(['stopping', 'stopped']);
    second!();
    await expect.poll(() => events).toEqual(['stopping', 'stopped', 'goes on']);
    unserve();
    expect(existsSync(terminalSocket(directory, process.pid))).toBe(false);
  });

  it('stay held when a reader comes later', async () => {
    const gate = new TerminalGate(async () => '');
    await gate.hold();
    const { reader, events, stopped } = slowReader();
    gate.readBy(reader);
    await expect.poll(() => events).toEqual(['stopping']);
    stopped();
    await gate.release();
    expect(events).toEqual(['stopping', 'stopped', 'goes on']);
  });

  it('are never read again when a daemon has gone without releasing them', async () => {
    const directory = await stateDir();
    const gate = new TerminalGate(async () => '');
    const { reader, events, stopped } = slowReader();
    gate.readBy(reader);
    onTestFinished(await serveTerminal(gate));
    const daemon = net.connect(terminalSocket(directory, process.pid));
    await expect.poll(() => events).toEqual(['stopping']);
    stopped();
    await new Promise((resolve) => daemon.once('data', resolve));
    daemon.destroy();
    await expect.poll(() => events).toEqual(['stopping', 'stopped', 'stopping']);
    stopped();
    await gate.lost;
    expect(events.slice(3)).toEqual(['stopped', 'is ended']);
  });

  it('keep their daemon until all are released', async () => {
    await stateDir();
    const gate = new TerminalGate(async () => '');
    gate.readBy({ stop: async () => {}, goOn: () => {}, end: () => {} });
    onTestFinished(await serveTerminal(gate));
    const holds = new TerminalHolds(process.env.GPG_BRIDGE_STATE_DIR!, () => {});
    await holds.released();
    const [first, second] = await Promise.all([holds.hold()!, holds.hold()!]);
    let isReleased = false;
    const released = holds.released().then(() => {
      isReleased = true;
    });
    first();
    await new Promise((resolve) => setImmediate(resolve));
    expect(isReleased).toBe(false);
    second();
    await released;
  });

  it('that come while a prompt may be up are read when it is over', async () => {
    const directory = await stateDir();
    onTestFinished(await serveTerminal(new TerminalGate(async () => ''))); // it makes the directory
    const holds = new TerminalHolds(directory, () => {});
    const [first, second] = [await holds.hold(), await holds.hold()];
    await expect.poll(() => existsSync(promptSocket(directory, process.pid))).toBe(true);
    let isOver: boolean | undefined;
    const over = promptsAreOver(() => {}).then((told) => {
      isOver = told;
    });
    first();
    await delay(50);
    expect(isOver).toBeUndefined();
    second();
    await over;
    expect(isOver).toBe(true);
    expect(existsSync(promptSocket(directory, process.pid))).toBe(false);
    expect(await promptsAreOver(() => {})).toBe(true);
  });

  it('that come while a prompt may be up are not read if its daemon goes without a word', async () => {
    const directory = await stateDir();
    onTestFinished(await serveTerminal(new TerminalGate(async () => ''))); // it makes the directory
    const killed = net.createServer((reader) => void reader.end('held\n'));
    killed.listen(promptSocket(directory, 999_999_999));
    onTestFinished(() => void killed.close());
    expect(await promptsAreOver(() => {})).toBe(false);
  });

  it('of a process that was killed are forgotten', async () => {
    const directory = await stateDir();
    const gate = new TerminalGate(async () => '');
    onTestFinished(await serveTerminal(gate));
    const dead = terminalSocket(directory, 999_999_999);
    const server = net.createServer().listen(`${dead}.bound`);
    await new Promise((resolve) => server.once('listening', resolve));
    const { renameSync } = await import('node:fs');
    renameSync(`${dead}.bound`, dead);
    await new Promise((resolve) => server.close(resolve));
    const release = await new TerminalHolds(directory, () => {}).hold();
    release!();
    expect(existsSync(dead)).toBe(false);
  });

  it('that do not answer are hardly waited for again, and the log says so', async () => {
    const directory = await stateDir();
    onTestFinished(await serveTerminal(new TerminalGate(async () => ''))); // it makes the directory
    const stopped = net.createServer().listen(terminalSocket(directory, 999_999_999));
    onTestFinished(() => void stopped.close());
    await new Promise((resolve) => stopped.once('listening', resolve));
    const log = vi.fn();
    const holds = new TerminalHolds(directory, log);
    const since = performance.now();
    (await holds.hold()!)();
    const first = performance.now() - since;
    (await holds.hold()!)();
    expect(first).toBeGreaterThan(1_900);
    expect(performance.now() - since - first).toBeLessThan(1_000);
    expect(log).toHaveBeenCalledOnce();
  });
});
