import { gnupgHomeIn } from '../targets/home.ts';
import { shellQuote } from '../targets/shell-quote.ts';
import { runningBridge } from './bridge-operand.ts';
import type { ParsedCommand } from './specs.ts';

/** Prints what the target's shell has to export. */
export async function run(command: ParsedCommand): Promise<number> {
  const status = await runningBridge('env', command);
  const ssh = status.sockets.find(({ type }) => type === 'ssh-agent');
  const { home } = status.options;
  // A local target is a GNUPGHOME; elsewhere gpg looks in the right place by itself, unless that is --home's.
  const gnupgHome = status.key.startsWith('local\n') ? status.id : home && gnupgHomeIn(home);
  if (gnupgHome) process.stdout.write(`export GNUPGHOME=${shellQuote(gnupgHome)}\n`);
  process.stdout.write(
    ssh ? `export SSH_AUTH_SOCK=${shellQuote(ssh.path)}\n` : '# no ssh-agent is bridged there\n',
  );
  return 0;
}
