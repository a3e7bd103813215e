import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { writeScript } from '@gpg-bridge/test-support/script';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it, vi } from 'vitest';
import { installService, serviceManager, serviceProgram, uninstallService } from './service.ts';
import type { ServiceProgram } from './service-files.ts';

/** Words that each format has to escape in its own way. */
const program: ServiceProgram = {
  command: ['/opt/no de/bin/node', '/home/ada/100%/$HOME/"gpg-bridge".js', 'auto', 'run'],
  env: { PATH: '/usr/bin:/bin', GNUPGHOME: '/home/ada/<keys> & "more"\\' },
};

const surroundings = {
  env: { LOCALAPPDATA: '/c/Users/ada/AppData/Local' },
  home: '/home/ada',
  uid: 501,
  user: 'DESK\\ada',
};

/** What each service manager is told, in order: to start, and to end. */
const COMMANDS = {
  linux: () => [
    'systemctl --user daemon-reload',
    'systemctl --user enable gpg-bridge-auto.service',
    'systemctl --user restart gpg-bridge-auto.service',
    'systemctl --user disable --now gpg-bridge-auto.service',
    'systemctl --user daemon-reload',
  ],
  darwin: (path: string) => [
    'launchctl bootout gui/501/org.gpg-bridge.auto',
    `launchctl bootstrap gui/501 ${path}`,
    'launchctl bootout gui/501/org.gpg-bridge.auto',
  ],
  win32: (path: string) => [
    'schtasks /End /TN GPG Bridge auto',
    `schtasks /Create /TN GPG Bridge auto /XML ${path} /F`,
    'schtasks /Run /TN GPG Bridge auto',
    'schtasks /End /TN GPG Bridge auto',
    'schtasks /Delete /TN GPG Bridge auto /F',
  ],
};

describe.each([
  ['linux', 'gpg-bridge-auto.service', '/home/ada/.config/systemd/user/gpg-bridge-auto.service'],
  ['darwin', 'org.gpg-bridge.auto.plist', '/home/ada/Library/LaunchAgents/org.gpg-bridge.auto.plist'],
  ['win32', 'auto-task.xml', '/c/Users/ada/AppData/Local/gpg-bridge/auto-task.xml'],
] as const)('the service on %s', (platform, golden, path) => {
  const manager = serviceManager({ ...surroundings, platform });

  it('has the file that its manager reads', async () => {
    expect(manager.path.replaceAll('\\', '/')).toBe(path);
    const text = manager.text(program);
    const decoded = typeof text === 'string' ? text : text.toString('utf16le').replace(/^\uFEFF/, '');
    await expect(decoded.replaceAll('\r\n', '\n')).toMatchFileSnapshot(`golden/${golden}`);
  });

  it('is started and ended by these commands', () => {
    const told = [...manager.start, ...manager.end, ...manager.ended];
    expect(told.map(({ words }) => words.join(' ').replaceAll('\\', '/'))).toEqual(COMMANDS[platform](path));
  });
});

describe('the program of the service', () => {
  it('has what decides where engines, agents and files are, and no more', () => {
    const env = {
      PATH: '/usr/bin',
      GNUPGHOME: 'keys',
      DOCKER_HOST: 'unix:///x',
      DOCKER_TLS: '1',
      SSH_AUTH_SOCK: '/run/user/1/agent',
      SECRET: 'no',
    };
    const made = serviceProgram({ env, platform: 'linux' }, process.argv[1]);
    expect(made.command).toEqual([process.execPath, process.argv[1], 'auto', 'run']);
    expect(made.env).toEqual({
      PATH: '/usr/bin',
      GNUPGHOME: join(process.cwd(), 'keys'),
      DOCKER_HOST: 'unix:///x',
      DOCKER_TLS: '1',
      SSH_AUTH_SOCK: '/run/user/1/agent',
    });
    const passing = { ...env, SSH_AUTH_SOCK: '/tmp/ssh-XXXX/agent.1' };
    expect(serviceProgram({ env: passing, platform: 'linux' }, process.argv[1]).env).not.toHaveProperty(
      'SSH_AUTH_SOCK',
    );
  });
});

describe('installing the service', () => {
  /** A systemctl that notes what it was told, and fails as it is told. */
  async function withSystemctl(body: string) {
    const dir = await tempDir();
    const log = join(dir, 'log');
    await mkdir(join(dir, 'bin'));
    await writeFile(log, '');
    await writeScript(join(dir, 'bin'), 'systemctl', `echo "$@" >>${log}; ${body}`);
    vi.stubEnv('PATH', `${join(dir, 'bin')}${delimiter}${process.env.PATH}`);
    const manager = serviceManager({
      ...surroundings,
      platform: 'linux',
      env: { XDG_CONFIG_HOME: join(dir, 'config') },
    });
    return { manager, told: async () => (await readFile(log, 'utf8')).split('\n').filter(Boolean) };
  }

  it('writes the file and starts it; uninstalling ends and removes it', async () => {
    const { manager, told } = await withSystemctl('true');
    await installService(manager, program);
    expect(await readFile(manager.path, 'utf8')).toContain('[Service]');
    expect(await told()).toEqual([
      '--user daemon-reload',
      '--user enable gpg-bridge-auto.service',
      '--user restart gpg-bridge-auto.service',
    ]);
    await uninstallService(manager);
    expect(existsSync(manager.path)).toBe(false);
    expect((await told()).slice(3)).toEqual([
      '--user disable --now gpg-bridge-auto.service',
      '--user daemon-reload',
    ]);
  });

  it('leaves no file where it fails, and says why', async () => {
    const { manager } = await withSystemctl('echo "Failed to connect to bus" >&2; exit 1');
    await expect(installService(manager, program)).rejects.toMatchObject({
      code: 'SERVICE_FAILED',
      why: expect.stringContaining('Failed to connect to bus'),
    });
    expect(existsSync(manager.path)).toBe(false);
  });
});
