import { readFile } from 'node:fs/promises';
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

it('warns once where there is nothing that shows notices', async () => {
  const { made, warnings } = await notice('something-else', { platform: 'linux', env: { PATH: '/nowhere' } });
  made.notify(use, 'ok');
  await expect.poll(() => warnings).toHaveLength(1);
  made.notify(use, 'ok');
  expect(warnings).toEqual([expect.stringMatching(/no notices are shown: notify-send does not work here/)]);
});
