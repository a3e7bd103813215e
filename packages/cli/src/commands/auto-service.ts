import { existsSync } from 'node:fs';
import { printableValue } from '@gpg-bridge/core/text/escape';
import {
  installService,
  isPassing,
  ownSurroundings,
  serviceManager,
  serviceProgram,
  uninstallService,
} from '../auto/service.ts';

/** `auto install`: a service of this user that runs `auto run`. */
export async function install(): Promise<number> {
  const surroundings = ownSurroundings();
  const manager = serviceManager(surroundings);
  await installService(manager, serviceProgram(surroundings));
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
