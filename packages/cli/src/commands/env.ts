import { shellQuote } from '../targets/shell-quote.ts';
import { runningBridge } from './bridge-operand.ts';
import type { ParsedCommand } from './specs.ts';

/** Prints what the target's shell has to export. */
export async function run(command: ParsedCommand): Promise<number> {
  const status = await runningBridge('env', command);
  const ssh = status.sockets.find(({ type }) => type === 'ssh-agent');
  // A local target is a GNUPGHOME; everywhere else gpg looks in the right place by itself.
  if (status.key.startsWith('local\n')) process.stdout.write(`export GNUPGHOME=${shellQuote(status.id)}\n`);
  process.stdout.write(
    ssh ? `export SSH_AUTH_SOCK=${shellQuote(ssh.path)}\n` : '# no ssh-agent is bridged there\n',
  );
  return 0;
}
