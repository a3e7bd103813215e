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

/** The remote's command that the host's extension calls when what is allowed has changed. */
export const HOST_CHANGED = '_gpg-bridge-request.hostChanged';

/** The remote's command that tells the host's extension what the status page says of the remote. */
export const REMOTE_REPORT = '_gpg-bridge-request.report';
/** The remote's command that opens the status page. */
export const REMOTE_STATUS = 'gpg-bridge-request.showStatus';

/** The host's commands that the remote's menu runs for a person. */
export const HOST_MENU = 'gpg-bridge-agent.openMenu';
/** Shows the status page. */
export const HOST_STATUS = 'gpg-bridge-agent.showStatus';
export const HOST_START = 'gpg-bridge-agent.start';
export const HOST_STOP = 'gpg-bridge-agent.stop';

/** The pages of the host's menu. */
export type HostMenuPage = 'allowed' | 'allow-for' | 'operations' | 'pause';

/** What a Stop or a Start is about. */
export type StopScope = 'remote' | 'computer';

/** What the remote adds to the host's list of what is allowed: the answer about private keys of its own. */
export type OwnKeysAnswer = 'set-aside' | 'keep';

/** What a person chose in the host's menu that only the remote can carry out. */
export type MenuOutcome = 'forget-own-keys' | undefined;

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

/**
 * Whether the window's remote may use the keys. The person decides about the remote, and stops or pauses the
 * whole computer, or this remote alone (`off`).
 */
export type Permission = 'allowed' | 'refused' | 'undecided' | 'stopped' | 'paused' | 'off';

/**
 * The host's answer to `checkVersion`. Before the remote is allowed it has the first two fields alone: they
 * tell nothing about the host.
 */
export interface HostFacts {
  version: string;
  permission: Permission;
  /** When a pause or a permission for a time ends, in milliseconds since the epoch. */
  until?: number | undefined;
  /** The host's own agent sockets, at which the remote must never listen. */
  sockets?: SocketIdentity[] | undefined;
  /** Why the keys can't be used although they are allowed, as `BridgeError.toJSON` writes it. */
  problem?: unknown;
  /** The token of a grant that the person has just given. */
  token?: string | undefined;
}

/** Why a remote calls `checkVersion`: to look, or to have the person asked. */
export type CheckPurpose = 'look' | 'program-asks' | 'person-asks';

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
