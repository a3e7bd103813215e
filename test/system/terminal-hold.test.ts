import { existsSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { childrenOf, Person, processesWith, serverOf } from '@gpg-bridge/test-support/cli';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import {
  answerPinentry,
  personWithPassphrase,
  QUERY_LATE,
  recordRaw,
  TERMINAL_PINENTRIES,
  type TerminalPinentry,
} from '@gpg-bridge/test-support/terminal-pinentry';
import { describe, expect, it, onTestFinished } from 'vitest';

/** A process that has nothing to do is ended after less than that. */
const LINGERS_MS = 4_000;

/** A prompt in the terminal of a command in a target, which reads all keys at once. */
async function prompted(pinentry: TerminalPinentry) {
  const person = await personWithPassphrase(pinentry);
  // One whose terminal has gone takes a whole processor, and does not end.
  onTestFinished(async () => {
    for (const { pid, command } of await processesWith(`GNUPGHOME=${person.home.dir}\0`)) {
      if (command.startsWith('pinentry')) process.kill(pid, 'SIGKILL');
    }
  });
  const target = `local:${(await person.localHome()).dir}`;
  await person.ok('up', target);
  const [{ pid }] = await person.json<[{ pid: number }]>('status');
  const recorder = await recordRaw(person, target);
  await recorder.sign();
  await recorder.terminal.shows(/Passphrase:/);
  return { person, target, pid, recorder };
}

const statOf = (pid: number) =>
  readFileSync(`/proc/${pid}/stat`, 'latin1')
    .replace(/^.*\) /s, '')
    .split(' ');
const stateOf = (pid: number) => statOf(pid)[0];
const groupOf = (pid: number) => Number(statOf(pid)[2]);

/** What runs at the end of a chain of processes that each started one, among others. */
async function descendants(pid: number): Promise<number[]> {
  const children = await childrenOf(pid);
  const below = await Promise.all(children.map(descendants));
  return [...below.flat(), ...children];
}

async function untilEnded(pid: number): Promise<void> {
  while (existsSync(`/proc/${pid}`)) await delay(50);
}

requireSystem('tmux', 'pinentry')('a prompt in the terminal of `exec`', () => {
  describe.each(TERMINAL_PINENTRIES)('of pinentry-%s', (pinentry) => {
    it.each(['with its server in the target', 'by `down`'])(
      'keeps what is typed from the target when the bridge ends meanwhile %s',
      async (cause) => {
        const { person, target, pid, recorder } = await prompted(pinentry);
        if (cause === 'by `down`') await person.ok('down', target);
        else process.kill(await serverOf(pid), 'SIGKILL');
        await person.settled();
        expect(await person.json('status')).toEqual([]);
        await Promise.race([untilEnded(pid), delay(LINGERS_MS)]);
        await answerPinentry(recorder.terminal, 'typed key by key');
        await recorder.signed();
        await untilEnded(pid);
        await recorder.terminal.type('x');
        await expect.poll(recorder.received).toBe('x');
        await recorder.terminal.press('C-c');
        expect(await recorder.ended()).toMatchObject({ status: '130' });
      },
    );

    it('goes on when Ctrl-Z is pressed, and stops again what a signal has had go on', async () => {
      const { person, recorder } = await prompted(pinentry);
      const own = Number(basename(await person.file('.tty'), '.tty'));
      const [reader] = await descendants(own);
      await recorder.terminal.press('C-z');
      process.kill(-groupOf(own), 'SIGCONT');
      await expect.poll(() => stateOf(reader!)).toBe('T');
      await answerPinentry(recorder.terminal, 'typed key by key');
      expect(await recorder.signed()).toBe('0');
      await recorder.terminal.type('x');
      await expect.poll(recorder.received).toBe('x');
      await recorder.terminal.press('C-z');
      await recorder.terminal.shows(/Stopped/);
      await recorder.terminal.enter('fg', /\nfg\n|# fg\n/);
      await recorder.terminal.press('C-c');
      await recorder.ended();
    });

    if (pinentry === 'tty') {
      it.each([
        ['takes the number that it shows', ':', true],
        ['takes no key that the terminal sends by itself', QUERY_LATE, false],
      ])('of --confirm %s', async (_what, before, isTyped) => {
        const person = await Person.create({ agentConf: 'pinentry-program /usr/bin/pinentry-tty\n' });
        const target = `local:${(await person.localHome()).dir}`;
        const recorder = await recordRaw(person, target, before, `up ${target} --confirm`);
        await recorder.sign();
        const screen = await recorder.terminal.shows(/type \d+[\s\S]*Number:/);
        const [, number] = /type (\d+)/.exec(screen)!;
        if (isTyped) await recorder.terminal.type(number!);
        await recorder.terminal.press('Enter');
        expect(await recorder.signed()).toBe(isTyped ? '0' : '2');
        const outcome = isTyped ? 'ok' : 'refused';
        expect(await person.json('log', target, '--uses')).toMatchObject([{ outcome }]);
        await recorder.terminal.press('C-c');
        await recorder.ended();
      });
    }

    it('ends the command when the daemon is killed meanwhile, and no key reaches it', async () => {
      const { pid, recorder } = await prompted(pinentry);
      process.kill(pid, 'SIGKILL');
      const { status, stderr, settings } = await recorder.ended();
      expect(status).toBe('1');
      expect(stderr).toMatch(/was ended: a bridge was killed while a prompt/);
      expect(settings).toMatch(/[^-]icanon[\s\S]*[^-]echo /);
      expect(await recorder.received()).toBe('');
    });
  });
});
