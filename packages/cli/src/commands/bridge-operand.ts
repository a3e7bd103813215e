import { BridgeError } from '@gpg-bridge/core/errors';
import type { DaemonStatus } from '../daemon/control.ts';
import { Manager } from '../manager/manager.ts';
import type { BridgeOptions } from '../manager/types.ts';
import { text } from './flags.ts';
import { usage } from './parse.ts';
import type { CommandName, ParsedCommand } from './specs.ts';

/** A bridge that a person named. */
export interface Which {
  spec: string | undefined;
  /** What, beside its name, says which one is meant. */
  options: Pick<BridgeOptions, 'user' | 'exec'>;
  /** As the person said it. */
  name: string;
}

/** The bridge that a command's words name, if they name one. */
export function namedBridge({ operands: [spec], flags }: ParsedCommand): Which | undefined {
  const user = text(flags, 'user');
  const exec = text(flags, 'exec');
  const name = spec ?? exec;
  if (name === undefined) return undefined;
  return {
    spec,
    options: { ...(user === undefined ? {} : { user }), ...(exec === undefined ? {} : { exec }) },
    name,
  };
}

/** The bridge that a command's words name; they have to. */
export function whichBridge(command: CommandName, parsed: ParsedCommand): Which {
  const which = namedBridge(parsed);
  if (!which) throw usage(command, 'it needs a target');
  return which;
}

/** The running bridge that a command is about; an error if there is none. */
export async function requireBridge(command: CommandName, parsed: ParsedCommand): Promise<DaemonStatus> {
  const which = whichBridge(command, parsed);
  const status = await new Manager().find(which.spec, which.options);
  if (status) return status;
  throw noBridge(which);
}

/** The error for a bridge that is not there. */
export function noBridge({ spec, name }: Which): BridgeError {
  return new BridgeError('BRIDGE_NOT_RUNNING', {
    what: `there is no bridge to ${name}`,
    why: 'none was started, or it has ended',
    fix: `Start one with \`gpg-bridge up ${spec ?? `--exec '${name}'`}\`.`,
  });
}
