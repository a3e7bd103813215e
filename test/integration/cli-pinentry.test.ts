import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Person, processesWith } from '@gpg-bridge/test-support/cli';
import type { GnupgHome } from '@gpg-bridge/test-support/gnupg-home';
import { useShell } from '@gpg-bridge/test-support/interactive';
import { ScriptedPinentry } from '@gpg-bridge/test-support/pinentry';
import { run } from '@gpg-bridge/test-support/process';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { Terminal } from '@gpg-bridge/test-support/terminal';
import {
  addProtectedKey,
  answerPinentry,
  PASSPHRASE,
  personWithPassphrase,
  recordRaw,
  recordTyped,
  signAsked,
  TERMINAL_PINENTRIES,
  WAYS_TO_TYPE,
} from '@gpg-bridge/test-support/terminal-pinentry';
import { describe, expect, it, onTestFinished } from 'vitest';
import { PROMPT_MS } from '../../packages/cli/src/engine/terminal-gate.ts';

/** A person whose pinentry waits somewhere else than in a terminal. */
async function asksElsewhere() {
  const elsewhere = await ScriptedPinentry.create(PASSPHRASE);
  onTestFinished(() => elsewhere.remove());
  const person = await Person.create({ key: false, agentConf: elsewhere.agentConf });
  await addProtectedKey(person);
  await elsewhere.waits();
  return { elsewhere, person, home: await person.localHome() };
}

/** Signs in the target, without its terminal, while that pinentry waits for so long; `meanwhile` is done first then. */
async function signElsewhere(
  person: Person,
  home: GnupgHome,
  elsewhere: ScriptedPinentry,
  ms: number,
  meanwhile?: () => Promise<unknown>,
) {
  const env = { ...person.env, GNUPGHOME: home.dir };
  const signed = run('gpg', ['--batch', '--clear-sign'], { env, input: 'text' });
  await elsewhere.asked();
  await meanwhile?.();
  await delay(ms);
  await elsewhere.goOn();
  expect(await signed).toMatchObject({ status: 0 });
}

/** A program in the target was stopped, and goes on. */
async function untilGoesOn(home: GnupgHome, name: string) {
  const all = await processesWith(`GNUPGHOME=${home.dir}\0`);
  const { pid } = all.find(({ command }) => command.startsWith(name))!;
  const state = async () => /\) (.)/.exec(await readFile(`/proc/${pid}/stat`, 'latin1'))![1];
  await expect.poll(state).toBe('S');
}

requireSystem('tmux', 'pinentry')('a passphrase for pinentry', () => {
  it('has what is typed for nobody meanwhile dropped, also if it asks elsewhere', async () => {
    const { elsewhere, person, home } = await asksElsewhere();
    const target = `local:${home.dir}`;
    // The terminal's echo tells when the keys are there to be read.
    const recorder = await recordRaw(person, target, 'stty echo < /dev/tty');
    await recorder.sign();
    await elsewhere.asked();
    // In less time nobody can have been asked, and what was typed is the target's.
    const since = performance.now();
    for (let keys = 1; performance.now() - since < 2 * PROMPT_MS; keys++) {
      await recorder.terminal.type('y');
      await recorder.terminal.shows(new RegExp(`^y{${keys}}$`, 'm'));
    }
    await elsewhere.goOn();
    expect(await recorder.signed()).toBe('0');
    await recorder.terminal.type('x');
    await expect.poll(recorder.received).toMatch(/x$/);
    expect(await recorder.received()).toBe('x');
    await recorder.terminal.press('C-c');
    await recorder.ended();
  });

  it('elsewhere does not reach a command that opens the terminal itself', async () => {
    const { elsewhere, person, home } = await asksElsewhere();
    const target = `local:${home.dir}`;
    await person.ok('up', target);
    const terminal = await Terminal.of(person);
    const directory = await tempDir();
    const received = () => readFile(join(directory, 'received'), 'utf8').catch(() => undefined);
    const program = `exec < /dev/tty; stty -icanon; exec cat > ${directory}/received`;
    const streams = `< /dev/null > ${directory}/printed 2>&1`;
    await terminal.enter(`gpg-bridge exec ${target} -- sh -c '${program}' ${streams}`, /gpg-bridge exec/);
    await expect.poll(received).toBe('');
    await signElsewhere(person, home, elsewhere, 2 * PROMPT_MS, () => terminal.enter('y', /^y$/m));
    await untilGoesOn(home, 'cat');
    await terminal.type('x');
    await expect.poll(received).toMatch(/x$/);
    expect(await received()).toBe('x');
    await terminal.press('C-c');
  });

  it('elsewhere leaves the terminal to a program that reads it beside `exec`', async () => {
    const { elsewhere, person, home } = await asksElsewhere();
    const terminal = await Terminal.of(person);
    const words = `gpg-bridge exec local:${home.dir} -- sed -u 's/^/got /'`;
    await terminal.enter(`cat | ${words}`, /gpg-bridge exec/);
    await terminal.enter('before', /^got before$/m);
    await signElsewhere(person, home, elsewhere, 2 * PROMPT_MS);
    await untilGoesOn(home, 'sed');
    for (const line of ['one', 'two', 'three', 'four']) {
      await terminal.enter(line, new RegExp(`^got ${line}$`, 'm'));
    }
    await terminal.press('C-c');
  });

  it('elsewhere leaves the terminal of an `exec` in the background to the program in front', async () => {
    const { elsewhere, person, home } = await asksElsewhere();
    const target = `local:${home.dir}`;
    await person.ok('up', target);
    const terminal = await Terminal.of(person);
    const begin = `gpg-bridge exec ${target} -- sh -c 'echo it runs; exec sleep 1000' & cat | sed -u 's/^/got /'`;
    await terminal.enter(begin, /^it runs$/m);
    await terminal.enter('before', /^got before$/m);
    await terminal.type('in the ');
    await signElsewhere(person, home, elsewhere, 2 * PROMPT_MS);
    await untilGoesOn(home, 'sleep');
    await terminal.enter('front', /^got in the front$/m);
    await terminal.press('C-d');
    await terminal.enter("kill %1; wait; stty -a; echo it 'is' over", /^it is over$/m);
    expect(await terminal.screen()).toMatch(/[^-]icanon[\s\S]*[^-]echo /);
  });

  describe.each(TERMINAL_PINENTRIES)('%s', (pinentry) => {
    it.each(WAYS_TO_TYPE)(
      '%s does not reach a command of this machine that reads the terminal',
      async (way) => {
        const person = await personWithPassphrase(pinentry);
        const target = await person.localHome();
        const read = (path: string) => readFile(path, 'utf8');
        const received = await recordTyped(person, `local:${target.dir}`, way, await tempDir(), read);
        expect(received).toBe('before\nsign\nend\n');
      },
    );

    it('does not reach a target that is bridged by itself, while another one uses the key', async () => {
      const person = await personWithPassphrase(pinentry);
      const [one, other] = [await person.localHome(), await person.localHome()];
      await person.ok('up', `local:${other.dir}`);
      const read = (path: string) => readFile(path, 'utf8');
      const before = `env GNUPGHOME=${other.dir}`;
      const words = `local:${one.dir}`;
      const received = await recordTyped(person, words, 'typed key by key', await tempDir(), read, before);
      expect(received).toBe('before\nsign\nend\n');
      expect(await person.json('log', `local:${other.dir}`, '--uses')).toMatchObject([{ outcome: 'ok' }]);
    });

    it('does not reach a target that is entered while it asks', async () => {
      const person = await personWithPassphrase(pinentry);
      const { dir: target } = await person.localHome();
      await person.ok('up', `local:${target}`);
      const terminal = await Terminal.of(person);
      await terminal.useForPinentry();
      const directory = await tempDir();
      const sign = `(echo text | GNUPGHOME=${target} gpg --batch --no-tty --clear-sign > ${directory}/signed) &`;
      const program = `stty -icanon -echo; echo it reads now; exec cat > ${directory}/received`;
      const enter = `gpg-bridge exec local:${target} -- sh -c '${program}'`;
      await writeFile(
        join(directory, 'begin'),
        `${sign}\nuntil [ -e ${directory}/go ]; do sleep 0.1; done\n${enter}\n`,
      );
      await terminal.type(`. ${directory}/begin`);
      await terminal.press('Enter');
      await terminal.shows(/Passphrase:/);
      await writeFile(join(directory, 'go'), '');
      await expect.poll(() => person.files()).toContainEqual(expect.stringMatching(/\.tty$/));
      await answerPinentry(terminal, 'typed key by key');
      const read = (name: string) => readFile(join(directory, name), 'utf8').catch(() => '');
      await expect.poll(() => read('signed')).toContain('BEGIN PGP SIGNATURE');
      await terminal.shows(/it reads now/);
      await terminal.type('x');
      await expect.poll(() => read('received')).toBe('x');
      await terminal.press('C-c');
    });

    it('leaves a shell of this machine as it was', async () => {
      const person = await personWithPassphrase(pinentry);
      person.env.SHELL = '/bin/bash';
      await useShell(person, `local:${(await person.localHome()).dir}`, signAsked);
    });
  });
});
