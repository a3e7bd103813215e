import { existsSync } from 'node:fs';
import { percentDecode } from '../assuan/percent.ts';
import { BridgeError } from '../errors.ts';
import { describeFailure, runProgram } from '../process/run-program.ts';
import { findProgram, type GnupgOptions } from './programs.ts';

/** Names that `gpgconf --list-dirs` knows and the bridge asks for. */
export type GnupgDir =
  | 'agent-socket'
  | 'agent-extra-socket'
  | 'agent-ssh-socket'
  | 'homedir'
  | 'socketdir'
  | 'bindir';

/** The path that gpgconf gives for one name: raw, since only its whole list escapes `:` and `%`. */
export async function listDir(name: GnupgDir, options: GnupgOptions = {}): Promise<string> {
  const path = (await gpgconf(['--list-dirs', name], options)).replace(/\r?\n$/, '');
  if (path !== '' && !/[\r\n\0]/.test(path)) return path;
  throw new BridgeError('GPGCONF_FAILED', {
    what: `can't find out where GnuPG's ${name} is`,
    why: path === '' ? `gpgconf knows no ${name}` : 'gpgconf answered with more than a path',
    fix: 'Run `gpgconf --list-dirs` and update GnuPG to 2.2 or later if the name is missing there.',
  });
}

/** The program that asks a person for gpg-agent, unless gpg-agent.conf names another; gpgconf escapes it with `%`. */
export async function pinentryProgram(options: GnupgOptions = {}): Promise<string | undefined> {
  const components = await gpgconf(['--list-components'], options);
  const path = /^pinentry:[^:]*:([^:\r\n]+)/m.exec(components)?.[1];
  return path && percentDecode(Buffer.from(path)).toString();
}

/** Starts gpg-agent unless it runs already, and returns when it does. */
export async function launchAgent(options: GnupgOptions = {}): Promise<void> {
  try {
    await gpgconf(['--launch', 'gpg-agent'], options);
  } catch (cause) {
    const home = (options.env ?? process.env).GNUPGHOME;
    if (!home || existsSync(home)) throw cause;
    // GnuPG creates only its default home; for another it says "General error".
    throw new BridgeError('GPGCONF_FAILED', {
      what: 'gpgconf --launch gpg-agent failed',
      why: `GNUPGHOME is ${home}, which does not exist`,
      fix: 'Run `unset GNUPGHOME` to use your usual keyring, or `mkdir -p -m 700 "$GNUPGHOME"` to make that one.',
      cause,
    });
  }
}

/** Ends the gpg-agent of this environment's GNUPGHOME; none running is success. */
export async function killAgent(options: GnupgOptions = {}): Promise<void> {
  await gpgconf(['--kill', 'gpg-agent'], options);
}

async function gpgconf(args: readonly string[], options: GnupgOptions): Promise<string> {
  const program = await findProgram('gpgconf', options);
  const command = `gpgconf ${args.join(' ')}`;
  const fix = `Run \`${command}\` yourself to see what it says.`;
  let result: Awaited<ReturnType<typeof runProgram>>;
  try {
    result = await runProgram(program, args, { env: options.env });
  } catch (cause) {
    const why = `${program} can't be started (${cause instanceof Error ? cause.message : cause})`;
    throw new BridgeError('GPGCONF_FAILED', { what: `${command} failed`, why, fix, cause });
  }
  if (result.status === 0) return result.stdout.toString();
  throw new BridgeError('GPGCONF_FAILED', { what: `${command} failed`, why: describeFailure(result), fix });
}
