import { mkdirSync, realpathSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { homedir, userInfo } from 'node:os';
import { dirname, join } from 'node:path';
import { BridgeError, toBridgeError } from '@gpg-bridge/core/errors';
import { describeFailure, runProgram } from '@gpg-bridge/core/process/run-program';
import { serviceEnvironment } from '../environment.ts';
import {
  LAUNCHD_LABEL,
  launchdPlist,
  type ServiceProgram,
  SYSTEMD_UNIT,
  systemdUnit,
  WINDOWS_TASK,
  windowsTask,
} from './service-files.ts';

/** A service manager of one user: what it reads, and how it is told. */
export interface ServiceManager {
  /** What people call it. */
  name: string;
  /** The file that describes the service. */
  path: string;
  text: (program: ServiceProgram) => string | Buffer;
  /** Commands that start the service, and start it anew if it runs; those with `mayFail` only clear the way. */
  start: readonly ServiceCommand[];
  /** Commands that end it, before and after its file is removed. */
  end: readonly ServiceCommand[];
  ended: readonly ServiceCommand[];
}

interface ServiceCommand {
  words: readonly [string, ...string[]];
  mayFail?: true;
}

/** Where a service manager is looked for; a test says other places. */
export interface ServiceSurroundings {
  platform: NodeJS.Platform;
  env: NodeJS.ProcessEnv;
  home: string;
  uid: number;
  user: string;
}

const COMMAND_TIMEOUT_MS = 60_000;

/** This machine and its user. */
export function ownSurroundings(): ServiceSurroundings {
  const { uid, username } = userInfo();
  const { USERDOMAIN } = process.env;
  return {
    platform: process.platform,
    env: process.env,
    home: process.env.HOME || homedir(),
    uid,
    user: USERDOMAIN ? `${USERDOMAIN}\\${username}` : username,
  };
}

/** The service manager of a platform. */
export function serviceManager({ platform, env, home, uid, user }: ServiceSurroundings): ServiceManager {
  if (platform === 'darwin') {
    const path = join(home, 'Library/LaunchAgents', `${LAUNCHD_LABEL}.plist`);
    const bootout = ['launchctl', 'bootout', `gui/${uid}/${LAUNCHD_LABEL}`] as const;
    return {
      name: 'launchd',
      path,
      text: launchdPlist,
      start: [{ words: bootout, mayFail: true }, { words: ['launchctl', 'bootstrap', `gui/${uid}`, path] }],
      end: [{ words: bootout, mayFail: true }],
      ended: [],
    };
  }
  if (platform === 'win32') {
    const path = join(env.LOCALAPPDATA || join(home, 'AppData/Local'), 'gpg-bridge', 'auto-task.xml');
    return {
      name: 'the task scheduler',
      path,
      // It wants UTF-16 with a byte order mark.
      text: (program) => Buffer.from(`\uFEFF${windowsTask(program, user)}`, 'utf16le'),
      start: [
        { words: ['schtasks', '/End', '/TN', WINDOWS_TASK], mayFail: true },
        { words: ['schtasks', '/Create', '/TN', WINDOWS_TASK, '/XML', path, '/F'] },
        { words: ['schtasks', '/Run', '/TN', WINDOWS_TASK] },
      ],
      end: [
        { words: ['schtasks', '/End', '/TN', WINDOWS_TASK], mayFail: true },
        { words: ['schtasks', '/Delete', '/TN', WINDOWS_TASK, '/F'] },
      ],
      ended: [],
    };
  }
  const systemctl = (...words: string[]): ServiceCommand => ({ words: ['systemctl', '--user', ...words] });
  return {
    name: 'systemd',
    path: join(env.XDG_CONFIG_HOME || join(home, '.config'), 'systemd/user', SYSTEMD_UNIT),
    text: systemdUnit,
    // `restart` also starts one that does not run; `enable --now` would leave one that runs with its old file.
    start: [
      systemctl('daemon-reload'),
      systemctl('enable', SYSTEMD_UNIT),
      systemctl('restart', SYSTEMD_UNIT),
    ],
    end: [systemctl('disable', '--now', SYSTEMD_UNIT)],
    ended: [systemctl('daemon-reload')],
  };
}

/** `gpg-bridge auto run` as a service runs it. */
export function serviceProgram(
  { env, platform }: Pick<ServiceSurroundings, 'env' | 'platform'>,
  program = process.argv[1] ?? '',
): ServiceProgram {
  const { PATH, SSH_AUTH_SOCK, ...rest } = serviceEnvironment(env);
  const kept = {
    // A task of Windows has the one of its user.
    ...(PATH && platform !== 'win32' ? { PATH } : {}),
    ...(SSH_AUTH_SOCK && !isPassing(SSH_AUTH_SOCK) ? { SSH_AUTH_SOCK } : {}),
    ...rest,
  };
  return {
    command: [process.execPath, realpathSync(program), 'auto', 'run'],
    env: kept,
  };
}

/** Whether a socket has another name after the next login. */
export function isPassing(socket: string): boolean {
  return socket.startsWith('/tmp/');
}

/** Writes the service's file and has it started; nothing is left where that fails. */
export async function installService(manager: ServiceManager, program: ServiceProgram): Promise<void> {
  try {
    mkdirSync(dirname(manager.path), { recursive: true });
    rmSync(`${manager.path}.new`, { force: true });
    writeFileSync(`${manager.path}.new`, manager.text(program), { mode: 0o600, flag: 'wx' });
    renameSync(`${manager.path}.new`, manager.path);
  } catch (error) {
    throw toBridgeError(error, `can't write ${manager.path}`, 'Make its directory writable.');
  }
  try {
    await runAll(manager, manager.start);
  } catch (error) {
    await runAll(manager, manager.end).catch(() => {});
    rmSync(manager.path, { force: true });
    throw error;
  }
}

/** Ends the service and removes its file. */
export async function uninstallService(manager: ServiceManager): Promise<void> {
  await runAll(manager, manager.end);
  rmSync(manager.path, { force: true });
  await runAll(manager, manager.ended);
}

async function runAll(manager: ServiceManager, commands: readonly ServiceCommand[]): Promise<void> {
  for (const { words, mayFail } of commands) {
    const [program, ...args] = words;
    const why = await runProgram(program, args, { timeoutMs: COMMAND_TIMEOUT_MS, maxOutput: 65_536 }).then(
      (result) => (result.status === 0 && !result.aborted ? undefined : describeFailure(result)),
      (error: NodeJS.ErrnoException) =>
        error.code === 'ENOENT' ? `there is no command ${program} here` : error.message,
    );
    if (why === undefined || mayFail) continue;
    throw new BridgeError('SERVICE_FAILED', {
      what: `${manager.name} did not do \`${words.join(' ')}\``,
      why,
      fix: 'Have `gpg-bridge auto run` started with your session in another way.',
    });
  }
}
