import { BridgeError } from '@gpg-bridge/core/errors';
import { printableValue } from '@gpg-bridge/core/text/escape';
import { nearest } from '@gpg-bridge/core/text/nearest';
import type { BridgeSelector } from '../bridge-options.ts';
import type { DaemonStatus } from '../daemon/control.ts';
import { Manager } from '../manager/manager.ts';
import { operandWords } from '../targets/operand-words.ts';
import { textFlag } from './flags.ts';
import { usage } from './parse.ts';
import type { CommandName, ParsedCommand } from './specs.ts';

/** A bridge that a person named. */
export interface NamedBridge {
  spec: string | undefined;
  selector: BridgeSelector;
  /** As the person said it. */
  name: string;
}

/** The bridge that a command's operand or --exec names, if there is either; a user alone names none. */
export function namedBridge(
  command: CommandName,
  { operands: [spec], flags }: ParsedCommand,
): NamedBridge | undefined {
  const user = textFlag(flags, 'user');
  const exec = textFlag(flags, 'exec');
  const name = spec ?? exec;
  if (name === undefined && user !== undefined) throw usage(command, '--user needs a target');
  if (name === undefined) return undefined;
  return {
    spec,
    selector: { ...(user === undefined ? {} : { user }), ...(exec === undefined ? {} : { exec }) },
    name,
  };
}

/** The same for a command that needs one: without it, an error of usage. */
export function requireNamedBridge(command: CommandName, parsed: ParsedCommand): NamedBridge {
  const named = namedBridge(command, parsed);
  if (!named) throw usage(command, 'it needs a target');
  return named;
}

/** The running bridge that a command is about; an error if there is none. */
export async function runningBridge(command: CommandName, parsed: ParsedCommand): Promise<DaemonStatus> {
  const named = requireNamedBridge(command, parsed);
  const status = await new Manager().find(named.spec, named.selector);
  if (status) return status;
  throw await noBridge(named);
}

/** The error for a bridge that is not there. */
export async function noBridge(named: NamedBridge): Promise<BridgeError> {
  const { spec, name, selector } = named;
  const others = (await new Manager().findAll(spec, selector).catch(() => [])).map(
    ({ target, options }) => `\`${operandWords(target, options)}\``,
  );
  const hint = others.length > 0 ? `Did you mean ${others.join(' or ')}? ` : await likeName(named);
  return new BridgeError('BRIDGE_NOT_RUNNING', {
    what: `there is no bridge to ${name}`,
    why: 'none was started, or it has ended',
    fix: `${hint}Start one with \`gpg-bridge up ${operandWords(spec, selector)}\`.`,
  });
}

/** Asks about a target whose name is nearly this one and which has a bridge, if there is one. */
export async function likeName({ name }: NamedBridge): Promise<string> {
  const targets = (await new Manager().list()).map(({ target }) => target);
  const meant = targets.includes(name) ? undefined : nearest(name, targets);
  return meant === undefined ? '' : `Did you mean ${printableValue(meant)}? `;
}

/** Says which other users have a bridge to the same target, and how to name each. */
export function otherUsers(
  command: CommandName,
  bridges: readonly DaemonStatus[],
  found?: DaemonStatus,
): string {
  const others = bridges.filter(({ key }) => key !== found?.key);
  return printableValue(others)
    .map(({ target, options }) => {
      const whose = options.user === undefined ? "the target's own user" : `the user ${options.user}`;
      const words = operandWords(target, options);
      return `There is ${found ? 'also ' : ''}one for ${whose}: gpg-bridge ${command} ${words}\n`;
    })
    .join('');
}
