import { isatty } from 'node:tty';
import { BridgeError } from '@gpg-bridge/core/errors';
import { printableValue } from '@gpg-bridge/core/text/escape';
import { promptsAreOver, serveTerminal } from '../daemon/terminal-server.ts';
import { ownTerminal, TerminalGate } from '../engine/terminal-gate.ts';
import type { BridgeInfo } from '../manager/types.ts';
import { operandWords } from '../targets/operand-words.ts';
import { resolveTarget } from '../targets/resolve.ts';
import type { Target } from '../targets/target.ts';
import { ensureBridge } from './ensure-bridge.ts';
import { bridgeOptions } from './flags.ts';
import { usage } from './parse.ts';
import { signalStatus } from './signals.ts';
import type { CommandName, ParsedCommand } from './specs.ts';

/** On this machine the host's own agent would be there, also where the bridge offers no SSH key. */
const WITHOUT_AGENT = 'unset SSH_AUTH_SOCK;';
/** Sets the variables before `--`, and becomes the command behind it. */
const WITH_VARIABLES = 'while [ "$1" != -- ];do export "$1";shift;done;shift;exec "$@"';

/** Ensures a bridge, and runs a command where it leads; the exit status is the command's. */
export async function run(parsed: ParsedCommand): Promise<number> {
  if (parsed.command.length === 0) throw usage('exec', 'it needs a command to run there');
  return runThere('exec', parsed, () => parsed.command);
}

/** Ensures a bridge, and runs there what the target asks for, on this process's own streams. */
export async function runThere(
  command: CommandName,
  { operands: [spec], flags }: ParsedCommand,
  argv: (target: Target) => readonly string[],
): Promise<number> {
  const options = bridgeOptions(command, flags);
  const wanted = { ...options, now: flags.now === true, ignoresDeadAgent: true };
  const info = await ensureBridge(spec, wanted, flags.verbose === true);
  if (typeof info === 'number') return info;
  if (info.result !== 'running' || info.mended.length + info.problems.length > 0) {
    const line = printableValue(changes(info, operandWords(info.target, options)));
    process.stderr.write(`gpg-bridge: ${line}\n`);
  }
  const target = await resolveTarget(spec, options);
  const variables = Object.entries(info.variables).map(([name, value]) => `${name}=${value}`);
  const script = `${target.kind === 'local' ? WITHOUT_AGENT : ''}${WITH_VARIABLES}`;
  const words = ['sh', '-c', script, 'sh', ...variables, '--', ...argv(target)];
  // Windows has no pinentry that asks in a terminal.
  const hasTerminal = process.platform !== 'win32' && ownTerminal() !== undefined;
  const gate = hasTerminal ? new TerminalGate() : undefined;
  await gate?.begin();
  const unserve = gate && (await serveTerminal(gate));
  if (gate && (!(await promptsAreOver(tellOfPrompt)) || gate.isLost)) {
    unserve?.();
    throw terminalLost(target, 'not started');
  }
  const { status, signal } = await target
    .attach(words, isatty(0) && isatty(1), gate)
    .finally(() => unserve?.());
  if (gate?.hasEnded) throw terminalLost(target, 'ended');
  if (signal) return signalStatus(signal);
  if (status !== null) return status;
  throw new BridgeError('TARGET_CLOSED', {
    what: `it is not known how the command in ${target.name} ended`,
    why: 'the target went away meanwhile',
    fix: 'See whether it still runs.',
  });
}

function tellOfPrompt(): void {
  process.stderr.write(
    'gpg-bridge: a key is being used; the command starts when the prompt for it is answered\n',
  );
}

function terminalLost({ name }: Target, how: 'ended' | 'not started'): BridgeError {
  return new BridgeError('TERMINAL_LOST', {
    what: `the command in ${name} was ${how}`,
    why: 'a bridge was killed while a prompt may have been up in this terminal, so what you type could have reached the target',
    fix: 'Answer the prompt if it is still there, then run the command again.',
  });
}

/** What was done to the bridge before the command, and what of it does not work, in one line. */
function changes(info: BridgeInfo, words: string): string {
  return [...new Set([...factsOf(info, words), ...info.mended, ...info.problems])].join('; ');
}

function factsOf(
  { target, result, changes, notes, warnings, problems }: BridgeInfo,
  words: string,
): string[] {
  const bridge = `the bridge to ${target}`;
  if (result === 'new') return [`${bridge} is up, until \`gpg-bridge down ${words}\``, ...notes, ...warnings];
  if (result === 'changed') {
    const changed = changes.map(({ option, from, to }) => `${option}: ${from} → ${to}`);
    const works = problems.length > 0 ? ', and works in part' : '';
    return [`${bridge} was changed${works}`, ...changed, ...notes];
  }
  return [problems.length > 0 ? `${bridge} works in part` : `${bridge} did not work, and does again`];
}
