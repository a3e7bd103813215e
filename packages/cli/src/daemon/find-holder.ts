import { dirname } from 'node:path';
import type { SocketIdentity } from '@gpg-bridge/core/fs/socket-identity';
import { askDaemon } from './control.ts';
import { controlSockets } from './state-dir.ts';

/** A daemon asks its own target, which may be slow; a person waits for the answer. */
const ANSWER_TIMEOUT_MS = 3_000;

/** The other bridge of this person whose socket it is, in words; undefined if it is none of theirs. */
export async function findHolder(ownControl: string, socket: SocketIdentity): Promise<string | undefined> {
  const others = controlSockets(dirname(ownControl)).filter((control) => control !== ownControl);
  const answers = await Promise.all(
    others.map((control) => askDaemon(control, 'holds', ANSWER_TIMEOUT_MS, socket).catch(() => undefined)),
  );
  const holder = answers.find((status) => status !== undefined);
  if (!holder) return undefined;
  const { target, options, pid } = holder;
  return `the bridge to ${target}${options.user === undefined ? '' : ` for the user ${options.user}`} (pid ${pid})`;
}
