import { existsSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { BridgeError } from '@gpg-bridge/core/errors';
import { printableValue } from '@gpg-bridge/core/text/escape';
import { alreadyRunning, autoLogPath, runningPid } from '../auto/runner.ts';
import {
  installService,
  isPassing,
  ownSurroundings,
  serviceManager,
  serviceProgram,
  uninstallService,
} from '../auto/service.ts';

/** How long a service may take to begin; far more than it needs. */
const STARTING_MS = 30_000;
const LOOK_MS = 100;

/** Resolves when the service's own process brings bridges up; a service manager does not tell. */
async function untilStarted(manager: string, before: number | undefined): Promise<void> {
  for (const end = Date.now() + STARTING_MS; Date.now() < end; await delay(LOOK_MS)) {
    const pid = await runningPid();
    if (pid !== undefined && pid !== before) return;
  }
  throw new BridgeError('SERVICE_FAILED', {
    what: 'the service is installed and does not run',
    why: `${manager} has started it, and it has not come up in ${STARTING_MS / 1_000} s`,
    fix: `See ${autoLogPath()}, try \`gpg-bridge auto run\`, or remove it with \`gpg-bridge auto uninstall\`.`,
  });
}

/** `auto install`: a service of this user that runs `auto run`. */
export async function install(): Promise<number> {
  const surroundings = ownSurroundings();
  const manager = serviceManager(surroundings);
  const before = await runningPid();
  // One that a person has started would keep the service from starting.
  if (before !== undefined && !existsSync(manager.path)) throw alreadyRunning(before);
  await installService(manager, serviceProgram(surroundings));
  await untilStarted(manager.name, before);
  const { SSH_AUTH_SOCK } = surroundings.env;
  const lines = [
    `${manager.name} runs \`gpg-bridge auto run\` now, and whenever you log in: ${printableValue(manager.path)}`,
  ];
  if (SSH_AUTH_SOCK && isPassing(SSH_AUTH_SOCK)) {
    lines.push(
      'Your SSH_AUTH_SOCK has another name after each login, so the service was not given it;',
      'an ssh-agent with a fixed socket, or --ssh-from-gpg in the rules, works there.',
    );
  }
  process.stdout.write(`${lines.join('\n')}\n`);
  return 0;
}

/** `auto uninstall`: ends that service and removes it; none is success. */
export async function uninstall(): Promise<number> {
  const manager = serviceManager(ownSurroundings());
  if (!existsSync(manager.path)) {
    process.stdout.write('There is no service to remove.\n');
    return 0;
  }
  await uninstallService(manager);
  process.stdout.write(
    `The service is removed: ${printableValue(manager.path)}. Rules stay; bridges stay until their containers end.\n`,
  );
  return 0;
}
