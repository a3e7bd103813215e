import { percentDecode } from '../assuan/percent.ts';
import { BridgeError } from '../errors.ts';
import { describeFailure, type ProgramResult } from '../process/run-program.ts';
import { printable } from '../text/escape.ts';
import { errorCode, type TargetOperations } from './operations.ts';

/** Where a target's user has what the bridge deals with. */
export interface GnupgPlaces {
  home: string;
  agentSocket: string;
}

/** Asks the target's gpgconf; the whole list, since each question is a program. */
export async function gnupgPlaces(operations: TargetOperations): Promise<GnupgPlaces> {
  const { stdout } = await gpgconf(operations, '--list-dirs');
  const listed = (name: string): string => {
    // The list escapes `:` and `%`.
    const value = new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(stdout.toString('latin1'))?.[1] ?? '';
    if (value) return percentDecode(Buffer.from(value, 'latin1')).toString();
    throw new BridgeError('GPGCONF_FAILED', {
      what: `can't find out where GnuPG's ${name} is`,
      why: `gpgconf knows no ${name}`,
      fix: 'Run `gpgconf --list-dirs` and update GnuPG to 2.2 or later if the name is missing there.',
    });
  };
  return { home: listed('homedir'), agentSocket: listed('agent-socket') };
}

/** Ends the gpg-agent of the target's user; none running is success. */
export async function stopTargetAgent(operations: TargetOperations): Promise<void> {
  await gpgconf(operations, '--kill', 'gpg-agent');
}

/** Throws if the target has no gpg. */
export async function requireGpg(operations: TargetOperations): Promise<void> {
  await orMissing('gpg', operations.which('gpg'));
}

async function gpgconf(operations: TargetOperations, ...args: string[]): Promise<ProgramResult> {
  const result = await orMissing('gpgconf', operations.run({ program: 'gpgconf', args }));
  if (result.status === 0) return result;
  const command = `gpgconf ${args.join(' ')}`;
  throw new BridgeError('GPGCONF_FAILED', {
    what: `${command} failed`,
    why: describeFailure(result),
    fix: `Run \`${command}\` in the target to see what it says.`,
  });
}

async function orMissing<T>(program: 'gpg' | 'gpgconf', attempt: Promise<T>): Promise<T> {
  try {
    return await attempt;
  } catch (cause) {
    if (cause instanceof BridgeError) throw cause;
    const isMissing = ['ENOENT', 'EACCES'].includes(errorCode(cause));
    throw new BridgeError(program === 'gpg' ? 'GPG_MISSING' : 'GPGCONF_MISSING', {
      what: "can't make the gpg socket",
      why: isMissing
        ? `the target has no ${program} on its PATH`
        : `${program} can't be started there (${printable((cause as Error).message)})`,
      fix: 'Install GnuPG in the target (`apt install gnupg`, `apk add gnupg`).',
      cause,
    });
  }
}
