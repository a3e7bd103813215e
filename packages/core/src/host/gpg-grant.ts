import type { Admission } from '../assuan/command-gate.ts';
import { changeData } from '../assuan/data-lines.ts';
import { GPG_ERROR } from '../assuan/error-codes.ts';
import { keyNamedIn, type PendingOperation } from '../assuan/operation.ts';
import { GET_PASSPHRASE, usesPrivateKey } from '../assuan/private-key-commands.ts';
import { errLine } from '../assuan/unavailable-agent.ts';
import type { WordGrant } from './key-usage.ts';

/** What a target may ask of gpg-agent, where a person has said more than "everything that it allows". */
export interface GpgGrant extends WordGrant {
  /** The only keys, by their keygrips in capitals; all of them if absent. */
  keygrips?: ReadonlySet<string> | undefined;
  /** Whether a passphrase may be asked for in the target's words; it may not unless this is true. */
  passphrase?: boolean | undefined;
}

/** Bytes of a keygrip. */
const GRIP_BYTES = 20;

/** What becomes of a command that a grant says something about; undefined for all others. */
export function decideByGrant(
  { command, key, another }: PendingOperation,
  block: Buffer,
  { keygrips, decrypt = true, passphrase = false }: GpgGrant,
): Admission | undefined {
  if (command === GET_PASSPHRASE) return passphrase ? undefined : refused(GPG_ERROR.FORBIDDEN, '');
  if (command === 'PKDECRYPT' && !decrypt)
    return refused(GPG_ERROR.FORBIDDEN, 'this target may not decrypt (--no-decrypt)');
  if (!keygrips) return undefined;
  if (usesPrivateKey(command))
    return key !== undefined && [key, another ?? key].every((grip) => keygrips.has(grip))
      ? undefined
      : notOffered(GPG_ERROR.NO_SECKEY);
  // These list keys of the card, chosen or not; agents before 2.4 refuse them to every target.
  if (command === 'SCD') return listsCardKeys(block) ? refused(GPG_ERROR.FORBIDDEN, '') : undefined;
  if (command === 'READKEY')
    return argumentsIn(block).every((word) => isOffered(word, keygrips))
      ? undefined
      : notOffered(GPG_ERROR.NO_SECKEY);
  if (command === 'HAVEKEY') return haveKey(argumentsIn(block), keygrips);
  return command === 'KEYINFO' ? keyInfo(argumentsIn(block), keygrips) : undefined;
}

/** Asks the agent for the chosen keys among those that are named, and leaves the others out of a list. */
function haveKey(words: readonly string[], keygrips: ReadonlySet<string>): Admission | undefined {
  const kept = words.filter((word) => isOffered(word, keygrips));
  const isList = words.some((word) => word.startsWith('--list'));
  // Without a keygrip it would be another question.
  if (kept.length < words.length && !kept.some(keyNamedIn) && !isList)
    return notOffered(words.includes('--info') ? GPG_ERROR.NOT_FOUND : GPG_ERROR.NO_SECKEY);
  const edit = isList ? (answer: Buffer) => changeData(answer, (data) => listed(data, keygrips)) : undefined;
  if (kept.length === words.length) return edit && { pass: true, edit };
  return { pass: true, instead: Buffer.from(`HAVEKEY ${kept.join(' ')}\n`, 'latin1'), edit };
}

function listsCardKeys(block: Buffer): boolean {
  return ['GETATTR', 'KEYINFO'].includes(argumentsIn(block)[0]?.toUpperCase() ?? '');
}

/** One chosen key passes. A list is refused, as the agents do that refuse KEYINFO altogether. */
function keyInfo(words: readonly string[], keygrips: ReadonlySet<string>): Admission | undefined {
  if (words.some((word) => /^--(?:ssh-)?list/.test(word))) return refused(GPG_ERROR.FORBIDDEN, '');
  return words.every((word) => isOffered(word, keygrips)) ? undefined : notOffered(GPG_ERROR.NOT_FOUND);
}

/** Whether a word is no keygrip, or that of a chosen key. */
function isOffered(word: string, keygrips: ReadonlySet<string>): boolean {
  const key = keyNamedIn(word);
  return key === undefined || keygrips.has(key);
}

/** The chosen keys among the binary keygrips that the agent lists. */
function listed(data: Buffer, keygrips: ReadonlySet<string>): Buffer {
  const grips: Buffer[] = [];
  for (let at = 0; at + GRIP_BYTES <= data.length; at += GRIP_BYTES) {
    const grip = data.subarray(at, at + GRIP_BYTES);
    if (keygrips.has(grip.toString('hex').toUpperCase())) grips.push(grip);
  }
  return Buffer.concat(grips);
}

/** The words behind the command, as gpg-agent separates them: by spaces and tabs. */
function argumentsIn(block: Buffer): string[] {
  const line = block.subarray(block.lastIndexOf(0x0a, block.length - 2) + 1).toString('latin1');
  return line
    .trimEnd()
    .split(/[ \t]+/)
    .slice(1);
}

function notOffered(code: number): Admission {
  return refused(code, 'this target may not use that key (--gpg-key)');
}

function refused(code: number, why: string): Admission {
  return { answer: errLine(code, why), why: why || 'it is not allowed over a bridge' };
}
