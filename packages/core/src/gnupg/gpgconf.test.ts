import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { GnupgHome } from '@gpg-bridge/test-support/gnupg-home';
import { run } from '@gpg-bridge/test-support/process';
import { writeScript } from '@gpg-bridge/test-support/script';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { expect, onTestFinished, test } from 'vitest';
import { killAgent, launchAgent, listDir } from './gpgconf.ts';

async function home(agentConf?: string): Promise<GnupgHome> {
  const created = await GnupgHome.create(agentConf);
  onTestFinished(() => created.remove());
  return created;
}

async function agentRuns({ env }: GnupgHome): Promise<boolean> {
  return (await run('gpg-connect-agent', ['--no-autostart', '/bye'], { env })).stderr === '';
}

test('gives the paths of the environment it was handed', async () => {
  const { env, dir } = await home();
  expect(await listDir('homedir', { env })).toBe(dir);
  expect(await listDir('agent-extra-socket', { env })).toMatch(/\/S\.gpg-agent\.extra$/);
});

test('starts and ends the agent, and twice is as good as once', async () => {
  const gnupg = await home();
  expect(await agentRuns(gnupg)).toBe(false);
  await launchAgent(gnupg);
  await launchAgent(gnupg);
  expect(await agentRuns(gnupg)).toBe(true);
  await killAgent(gnupg);
  await killAgent(gnupg);
  expect(await agentRuns(gnupg)).toBe(false);
});

test('takes the raw path, whatever is in it, and a line end of either kind', async () => {
  const gpgBinDir = await tempDir();
  for (const end of ['\\n', '\\r\\n', '']) {
    await writeScript(gpgBinDir, 'gpgconf', `printf 'C:\\\\a b%%3a%%25\\\\S.gpg-agent.extra${end}'`);
    expect(await listDir('agent-extra-socket', { gpgBinDir })).toBe('C:\\a b%3a%25\\S.gpg-agent.extra');
  }
});

test.each([
  ['nothing', 'true', /gpgconf knows no agent-extra-socket/],
  ['two lines', 'printf "a\\nb\\n"', /more than a path/],
  ['a failure', 'echo "gpgconf: no such thing" >&2; exit 1', /status 1, saying "gpgconf: no such thing"/],
])('says what is wrong with %s', async (_, body, message) => {
  const gpgBinDir = await tempDir();
  await writeScript(gpgBinDir, 'gpgconf', body);
  const asked = listDir('agent-extra-socket', { gpgBinDir });
  await expect(asked).rejects.toMatchObject({ code: 'GPGCONF_FAILED' });
  await expect(asked).rejects.toThrow(message);
});

test('says so when the program is there and can not be started', async () => {
  const gpgBinDir = await tempDir();
  await writeFile(join(gpgBinDir, 'gpgconf'), '#!/nowhere/interpreter\n', { mode: 0o755 });
  await expect(launchAgent({ gpgBinDir })).rejects.toMatchObject({
    code: 'GPGCONF_FAILED',
    why: expect.stringContaining("can't be started"),
  });
});

test('says so when the agent can not be started', async () => {
  const gnupg = await home();
  const env = { ...gnupg.env, GNUPGHOME: join(gnupg.dir, 'file') };
  await writeFile(env.GNUPGHOME, '');
  await expect(launchAgent({ env })).rejects.toMatchObject({
    code: 'GPGCONF_FAILED',
    what: 'gpgconf --launch gpg-agent failed',
    why: expect.stringMatching(/^it ended with status \d+, saying ".+"$/),
  });
});

test('names a GNUPGHOME that does not exist, and what makes it', async () => {
  const gnupg = await home();
  const env = { ...gnupg.env, GNUPGHOME: join(gnupg.dir, 'new', 'home') };
  const failure = await launchAgent({ env }).catch((error) => error);
  expect(failure).toMatchObject({
    code: 'GPGCONF_FAILED',
    why: `GNUPGHOME is ${env.GNUPGHOME}, which does not exist`,
  });
  await run('sh', ['-c', /`(mkdir [^`]+)`/.exec(failure.fix)?.[1] ?? 'false'], { env });
  await launchAgent({ env });
  await killAgent({ env });
});
