import type { Operation } from '@gpg-bridge/core/assuan/operation';
import type { ErrorCode } from '@gpg-bridge/core/errors';
import type { OwnKeysAnswer, Permission } from '@gpg-bridge/vscode-shared/contract';
import { t } from '@gpg-bridge/vscode-shared/l10n';
import type { WaitingUse } from '@gpg-bridge/vscode-shared/private-key-watch';
import type { Role } from './ownership.ts';

/** The states that the status bar item can show. */
export type StatusKind =
  | 'idle'
  | 'busy'
  | 'waiting'
  | 'shared'
  | 'allow'
  | 'forward'
  | 'off'
  | 'paused'
  | 'error';

/** An error as all windows can show it. */
export interface ShownError {
  code: ErrorCode;
  message: string;
  /** The part of the message that says what to do; a window of an earlier version does not tell it. */
  fix?: string | undefined;
  /** Whether it is about the person's computer or about the remote. */
  side: 'host' | 'remote';
}

/** How things stand with the socket; its owner tells the other windows. */
export interface Truth {
  /** What the person on the host allows, and until when. */
  permission: Permission;
  until?: number | undefined;
  /** Clients connected at the moment. */
  sessions: number;
  /** Operations that wait for a PIN, a passphrase or a touch. */
  waiting: WaitingUse[];
  /** Public keys are just being copied: without them gpg has nothing to sign with. */
  preparing?: boolean | undefined;
  error?: ShownError | undefined;
  /** What the keys were used for, newest first. */
  operations: readonly Operation[];
}

/** Who forwards the remote's gpg socket in place of a window of ours, as far as that can be seen. */
export interface OtherForward {
  program?: string | undefined;
  pid?: number | undefined;
}

/** Everything that the status depends on. */
export interface Situation {
  /** Whether this window takes part. */
  wanted: boolean;
  role: Role;
  own: Truth;
  /** What the window that holds the socket says. */
  shared?: Truth | undefined;
  /** Private keys of the remote's own are in the way: the person has to decide, or has decided to keep them. */
  ownKeys?: 'undecided' | Extract<OwnKeysAnswer, 'keep'> | undefined;
  /** An agent of the remote's own keeps its place until the person has allowed something else. */
  heldBack?: boolean | undefined;
  /** Another forward serves this remote's gpg: nothing is wrong, and its place is not taken unasked. */
  forward?: OtherForward | undefined;
}

/** What is so for all windows of the remote. */
export function truthOf({ role, own, shared }: Situation): Truth {
  return role.is === 'sharing' && shared ? shared : own;
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

function lookOf(kind: StatusKind): Look {
  switch (kind) {
    case 'idle':
      return {
        icon: 'key',
        words: t('ready'),
        meaning: t('The GPG keys of your computer can be used here.'),
      };
    case 'busy':
      return {
        icon: 'sync~spin',
        words: t('busy'),
        meaning: t('A program here is using the GPG keys of your computer.'),
      };
    case 'waiting':
      return {
        icon: 'bell-dot',
        words: t('waiting for you'),
        meaning: t('Your computer waits for your PIN, passphrase or touch.'),
        background: 'statusBarItem.warningBackground',
      };
    case 'shared':
      return {
        icon: 'link',
        words: t('shared'),
        meaning: t('The GPG keys of your computer can be used here.'),
      };
    case 'allow':
      return {
        icon: 'shield',
        words: t('Allow…'),
        meaning: t('You have not allowed this remote to use the GPG keys of your computer yet.'),
        background: 'statusBarItem.warningBackground',
      };
    case 'forward':
      return {
        icon: 'plug',
        words: t('forwarded'),
        meaning: t('Another forward serves this remote.'),
      };
    case 'off':
      return {
        icon: 'circle-slash',
        words: t('off'),
        meaning: t('The GPG keys of your computer are not used here.'),
      };
    case 'paused':
      return {
        icon: 'debug-pause',
        words: t('paused'),
        meaning: t('You paused GPG Bridge on your computer.'),
      };
    case 'error':
      return {
        icon: 'error',
        words: t('error'),
        meaning: t('The GPG keys of your computer can not be used here.'),
        background: 'statusBarItem.errorBackground',
      };
  }
}

/** Which state a situation amounts to; what a person has to act on comes first. */
export function kindOf(situation: Situation): StatusKind {
  const { wanted, role, ownKeys, heldBack, forward } = situation;
  const { permission, error, waiting, sessions, preparing } = truthOf(situation);
  if (permission === 'off') return 'off';
  if (error || role.is === 'cut-off') return 'error';
  if (!wanted || ownKeys === 'keep') return 'off';
  if (permission === 'refused' || permission === 'stopped') return 'off';
  if (permission === 'paused') return 'paused';
  if (forward) return 'forward';
  if (role.is === 'out' && !ownKeys && !heldBack) return 'busy'; // until there is a role the bridge is starting
  if (permission === 'undecided' || ownKeys === 'undecided') return 'allow';
  if (waiting.length > 0) return 'waiting';
  if (sessions > 0 || preparing) return 'busy';
  return role.is === 'sharing' ? 'shared' : 'idle';
}

/** What a person can do about a situation: these would have no effect in another. */
export function possibleSteps(situation: Situation): Record<'allow' | 'start' | 'stop', boolean> {
  const kind = kindOf(situation);
  const isRefused = truthOf(situation).permission === 'refused';
  return {
    allow: kind === 'allow' || (isRefused && kind === 'off'),
    start: !isRefused && (kind === 'off' || kind === 'paused'),
    stop: isInUse(kind) || kind === 'allow' || kind === 'error',
  };
}

/** Whether the keys can be used. */
export function isInUse(kind: StatusKind): boolean {
  return kind === 'idle' || kind === 'busy' || kind === 'waiting' || kind === 'shared';
}

/** A state as the status bar shows it. */
export interface StatusView {
  kind: StatusKind;
  text: string;
  /** The state in words. */
  title: string;
  /** What it means. */
  detail: string;
  tooltip: string;
  /** For screen readers, which do not read icons. */
  accessibleName: string;
  background: Look['background'];
}

/** The words for a situation. */
export function viewOf(situation: Situation): StatusView {
  const kind = kindOf(situation);
  const { icon, words, meaning, background } = lookOf(kind);
  const title = `GPG Bridge: ${words}`;
  const detail = [detailOf(situation, kind) ?? meaning, ...ownerIn(situation)].join(' ');
  return {
    kind,
    text: `$(${icon}) GPG: ${words}`,
    title,
    detail,
    tooltip: `${title}\n${detail}\n${t('Click for the menu.')}`,
    accessibleName: `${title}. ${detail}`,
    background,
  };
}

function detailOf(situation: Situation, kind: StatusKind): string | undefined {
  const { role, wanted, ownKeys, forward } = situation;
  const { permission, until, sessions, preparing, error } = truthOf(situation);
  if (permission === 'off') return t('You stopped GPG Bridge for this remote.');
  if (error) return error.message;
  if (role.is === 'cut-off')
    return t('Your computer does not answer. Signing works again as soon as it does.');
  if (ownKeys === 'keep') return t('You chose to keep using the private keys of this remote.');
  if (ownKeys === 'undecided')
    return t('This remote has private GPG keys of its own: choose which keys are used here.');
  if (!wanted) return undefined;
  if (permission === 'refused')
    return t('You chose never to allow this remote to use the GPG keys of your computer.');
  if (permission === 'stopped') return t('GPG Bridge is stopped on your computer.');
  if (permission === 'paused')
    return until === undefined
      ? undefined
      : t('You paused GPG Bridge on your computer until {0}.', timeOf(until));
  if (forward) return describeForward(forward);
  if (kind === 'busy' && role.is === 'out') return t('Starting…');
  if (kind === 'busy' && preparing && sessions === 0) return t('Copying public keys…');
  if (kind === 'busy' && sessions > 1)
    return t('{0} programs here are using the GPG keys of your computer.', sessions);
  if (permission === 'allowed' && until && (kind === 'idle' || kind === 'shared'))
    return t('The GPG keys of your computer can be used here until {0}.', timeOf(until));
  return undefined;
}

/** Who serves the remote in our place, and what a person can do about it. */
function describeForward({ program, pid }: OtherForward): string {
  const who =
    program === undefined || pid === undefined
      ? t('Another forward serves this remote.')
      : t('Another forward serves this remote ({0}, process {1}).', program, pid);
  const what = t(
    'Signing with your keys may work already. To use GPG Bridge instead, choose "Take over" in the menu, or end that forward.',
  );
  return `${who} ${what}`;
}

function ownerIn({ role }: Situation): string[] {
  return role.is === 'sharing' ? [t('The window "{0}" holds the gpg socket.', role.owner.window)] : [];
}

/** A time of day as the person writes it. */
export function timeOf(time: number): string {
  return new Date(time).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' });
}
