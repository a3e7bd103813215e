import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { writeScript } from '@gpg-bridge/test-support/script';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { expect, it } from 'vitest';
import { UseNotice, type UseNoticeOptions } from './use-notice.ts';

const use = { time: 0, session: 1, command: 'PKSIGN', key: 'A' };

/** A notice with a program in place of the desktop's, which writes its words down. */
async function notice(program: string, options: Partial<UseNoticeOptions> = {}) {
  const dir = await tempDir();
  await writeScript(
    dir,
    program,
    `for word; do echo "$word"; done >> "${dir}/shown"; echo "$GPG_BRIDGE_NOTICE_TEXT" >> "${dir}/text"`,
  );
  const warnings: string[] = [];
  const made = new UseNotice({
    target: () => 'box',
    nameOf: async () => 'Ada <ada@example.org>',
    log: (message) => void warnings.push(message),
    env: { PATH: `${dir}:${process.env.PATH}` },
    ...options,
  });
  const words = (file = 'shown') => readFile(join(dir, file), 'utf8').catch(() => '');
  return { made, warnings, words };
}

it('tells of a use, with whose key and to what end, as plain words', async () => {
  const { made, words } = await notice('notify-send', {
    platform: 'linux',
    target: () => '--x <b>\n$(y)\u202e',
  });
  made.notify(use, 'cancelled');
  await expect
    .poll(words)
    .toBe(
      '--app-name\nGPG Bridge\n--\nGPG Bridge\n' +
        '--x &lt;b&gt; $(y): a signature with your GPG key of Ada &lt;ada@example.org&gt; (cancelled)\n',
    );
});

it.each([
  ['darwin', 'osascript', 'shown'],
  ['win32', 'powershell.exe', 'text'],
] as const)('gives its words to %s as data', async (platform, program, file) => {
  const { made, words } = await notice(program, { platform, target: () => '"; rm -rf $HOME; "' });
  made.notify({ ...use, command: 'sign' }, 'ok');
  await expect.poll(() => words(file)).toMatch(/^"; rm -rf \$HOME; ": a signature with your SSH key of Ada/m);
});

it('counts what happens while one is being shown', async () => {
  const { made, words } = await notice('notify-send', { platform: 'linux' });
  for (let n = 0; n < 50; n++) made.notify(use, 'ok');
  await expect.poll(words).toMatch(/\(and 48 more\)/);
  expect((await words()).match(/--app-name/g)).toHaveLength(2);
});

it('shows three in ten seconds at most, and the last of them counts the others', async () => {
  let now = 0;
  const waits: number[] = [];
  const { made, words } = await notice('notify-send', {
    platform: 'linux',
    now: () => now,
    wait: async (ms) => {
      waits.push(ms);
      for (let n = 0; n < 5; n++) made.notify(use, 'ok');
      await new Promise(setImmediate);
      now += ms;
    },
  });
  const shown = async () => (await words()).match(/--app-name/g)?.length ?? 0;
  for (let n = 1; n <= 3; n++) {
    made.notify(use, 'ok');
    await expect.poll(shown).toBe(n);
    now += 1_000;
  }
  made.notify(use, 'ok');
  await expect.poll(words).toMatch(/\(and 5 more\)/);
  expect(waits).toEqual([7_000]);
});

it('goes on after a desktop has refused one', async () => {
  const dir = await tempDir();
  const refusing = join(dir, 'refusing');
  await writeFile(refusing, '');
  await writeScript(dir, 'notify-send', `[ ! -e "${refusing}" ] && echo shown >> "${dir}/shown"`);
  const { made, warnings } = await notice('other', {
    platform: 'linux',
    env: { PATH: `${dir}:${process.env.PATH}` },
  });
  made.notify(use, 'ok');
  await expect.poll(() => warnings).toHaveLength(1);
  await rm(refusing);
  made.notify(use, 'ok');
  await expect.poll(() => readFile(join(dir, 'shown'), 'utf8').catch(() => '')).toBe('shown\n');
  expect(warnings).toHaveLength(1);
});

it('warns once where there is nothing that shows notices', async () => {
  const { made, warnings } = await notice('something-else', { platform: 'linux', env: { PATH: '/nowhere' } });
  made.notify(use, 'ok');
  await expect.poll(() => warnings).toHaveLength(1);
  made.notify(use, 'ok');
  expect(warnings).toEqual([expect.stringMatching(/a notice was not shown: notify-send does not work here/)]);
});
