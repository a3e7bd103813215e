import { targetVariables } from '../daemon/target-variables.ts';
import { exportLines } from '../targets/shell-quote.ts';
import { runningBridge } from './bridge-operand.ts';
import type { ParsedCommand } from './specs.ts';

/** Prints what the target's shell has to export. */
export async function run(command: ParsedCommand): Promise<number> {
  const variables = targetVariables(await runningBridge('env', command));
  for (const line of exportLines(variables)) process.stdout.write(`${line}\n`);
  if (!variables.SSH_AUTH_SOCK) process.stdout.write('# no ssh-agent is bridged there\n');
  return 0;
}
