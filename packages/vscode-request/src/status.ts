import type { BridgeError } from '@gpg-bridge/core/errors';
import type { Permission } from '@gpg-bridge/vscode-shared/contract';
import type { Role } from './ownership.ts';

/** The states that the status bar item can show. */
export type StatusKind = 'idle' | 'busy' | 'waiting' | 'shared' | 'off' | 'error';

/** Everything that the status depends on. */
export interface Situation {
  /** Whether the person wants the bridge in this window. */
  wanted: boolean;
  role: Role;
  /** Clients connected at the moment. */
  sessions: number;
  /** Operations that wait for a PIN, a passphrase or a touch. */
  waiting: number;
  /** What the person on the host allows. */
  permission: Permission;
  error?: BridgeError | undefined;
  /** Why it is off, when that was not the person's wish in this window. */
  offReason?: string | undefined;
}

/** How a state looks and what it is called. */
interface Look {
  icon: string;
  /** What the item says. */
  words: string;
  /** What that means. */
  meaning: string;
  background?: 'statusBarItem.warningBackground' | 'statusBarItem.errorBackground';
}

const LOOKS: Readonly<Record<StatusKind, Look>> = {
  idle: { icon: 'key', words: 'ready', meaning: 'The GPG keys of your computer can be used here.' },
  busy: {
    icon: 'sync~spin',
    words: 'busy',
    meaning: 'A program here is using the GPG keys of your computer.',
  },
  waiting: {
    icon: 'bell-dot',
    words: 'waiting for you',
    meaning: 'Your computer waits for your PIN, passphrase or touch.',
    background: 'statusBarItem.warningBackground',
  },
  shared: {
    icon: 'link',
    words: 'shared with another window',
    meaning: 'Another window holds the gpg socket; signing works here too.',
  },
  off: { icon: 'circle-slash', words: 'off', meaning: 'The GPG keys of your computer are not used here.' },
  error: {
    icon: 'error',
    words: 'error',
    meaning: 'The GPG keys of your computer can not be used here.',
    background: 'statusBarItem.errorBackground',
  },
};

/** Which state a situation amounts to; what a person has to act on comes first. */
export function kindOf({ wanted, role, sessions, waiting, permission, error }: Situation): StatusKind {
  if (error || role.is === 'cut-off') return 'error';
  if (!wanted) return 'off';
  if (role.is === 'out') return 'busy'; // until there is a role the bridge is starting
  if (permission !== 'allowed') return 'off';
  if (waiting > 0) return 'waiting';
  if (role.is === 'sharing') return 'shared';
  return sessions > 0 ? 'busy' : 'idle';
}

/** A state as the status bar shows it. */
export interface StatusView {
  kind: StatusKind;
  text: string;
  tooltip: string;
  /** For screen readers, which do not read icons. */
  accessibleName: string;
  background: Look['background'];
}

/** The words for a situation. */
export function viewOf(situation: Situation): StatusView {
  const kind = kindOf(situation);
  const { icon, words, meaning, background } = LOOKS[kind];
  const detail = detailOf(situation, kind) ?? meaning;
  return {
    kind,
    text: `$(${icon}) GPG: ${words}`,
    tooltip: `GPG Bridge: ${words}\n${detail}\nClick for the menu.`,
    accessibleName: `GPG Bridge: ${words}. ${detail}`,
    background,
  };
}

const NOT_ALLOWED: Readonly<Record<Exclude<Permission, 'allowed'>, string>> = {
  refused: 'You chose never to allow this remote to use the GPG keys of your computer.',
  undecided: 'You have not allowed this remote to use the GPG keys of your computer yet.',
  stopped: 'GPG Bridge is stopped on your computer.',
};

function detailOf(
  { wanted, role, sessions, permission, error, offReason }: Situation,
  kind: StatusKind,
): string | undefined {
  if (error) return error.message;
  if (role.is === 'cut-off') return 'Your computer does not answer. Signing works again as soon as it does.';
  if (kind === 'off') return wanted && permission !== 'allowed' ? NOT_ALLOWED[permission] : offReason;
  if (kind === 'busy' && role.is === 'out') return 'Starting…';
  if (kind === 'busy' && sessions > 1)
    return `${sessions} programs here are using the GPG keys of your computer.`;
  return undefined;
}
