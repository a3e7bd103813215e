import { BridgeError, toBridgeError } from '@gpg-bridge/core/errors';
import type { SocketIdentity } from '@gpg-bridge/core/fs/socket-identity';
import type { KeyFilter } from '@gpg-bridge/core/gnupg/key-filter';

/** The commands of the host's extension that the remote's extension calls; no person does. */
export const HOST_COMMANDS = {
  connectAgent: '_gpg-bridge-agent.connectAgent',
  sendCommands: '_gpg-bridge-agent.sendCommands',
  disconnectAgent: '_gpg-bridge-agent.disconnectAgent',
  exportPublicKeys: '_gpg-bridge-agent.exportPublicKeys',
  checkVersion: '_gpg-bridge-agent.checkVersion',
} as const;

/** The host's menu, which the remote's menu opens at one of its pages. */
export const HOST_MENU = 'gpg-bridge-agent.showStatus';

/** The pages of the host's menu. */
export type HostMenuPage = 'allowed' | 'operations';

/** Which public keys a remote asks for; with `choose` the person on the host picks them from a list. */
export type KeyRequest = KeyFilter | 'choose';

/** The public keys that came of it, in base64. */
export interface ExportedKeys {
  keys: string;
  /** Fingerprints whose secret half is on the host. */
  trust: string[];
  count: number;
  /** What the person picked, when they were asked; undefined when they closed the list. */
  chosen?: string[] | undefined;
}

/** Whether the window's remote may use the keys: the person decides, or stops the host's side altogether. */
export type Permission = 'allowed' | 'refused' | 'undecided' | 'stopped';

/** The host's answer to `checkVersion`. */
export interface HostFacts {
  version: string;
  permission: Permission;
  /** The host's own agent sockets, at which the remote must never listen. */
  sockets: SocketIdentity[];
}

/**
 * What an internal command returns. VS Code keeps only the message of an error that crosses from one
 * extension host to another, so failures travel as data.
 */
export type Reply<T> = { ok: true; value: T } | { ok: false; error: unknown };

/** Runs the body of an internal command and wraps what came of it. */
export async function reply<T>(body: () => Promise<T> | T): Promise<Reply<T>> {
  try {
    return { ok: true, value: await body() };
  } catch (error) {
    return { ok: false, error: toBridgeError(error, 'the GPG Bridge extension on the host failed').toJSON() };
  }
}

/** The value of a reply, or its error as it was thrown on the other side. */
export function unwrap<T>(answer: Reply<T> | undefined): T {
  if (answer?.ok) return answer.value;
  throw BridgeError.fromJSON(answer?.error);
}
