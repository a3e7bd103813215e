import { hostname, userInfo } from 'node:os';
import type { DaemonStatus } from '../daemon/control.ts';
import { shownSshKey } from '../grants/grant-words.ts';
import type { Facts } from './facts.ts';
import { shownUserId } from './host-checks.ts';

const FINGERPRINT = /SHA256:[A-Za-z0-9+/]{43}/g;
/** Shorter ones would be found in words that have nothing to do with them. */
const SHORTEST = 3;

/**
 * A text without what says who somebody is: each name, address, fingerprint and place that is known becomes a word
 * for what it is, the same one wherever it stands.
 */
export function masked(text: string, facts: Facts): string {
  const words = privateWords(facts)
    .filter(([, word]) => word.length >= SHORTEST)
    // A long one may hold a short one.
    .sort(([, a], [, b]) => b.length - a.length);
  return words.reduce((left, [mask, word]) => left.replaceAll(word, `<${mask}>`), text);
}

/** What names keys and users. */
type Named = Pick<DaemonStatus, 'options' | 'leftOut'> & { offers: Partial<DaemonStatus['offers']> };

/** What is masked, with the word that stands for it. */
function privateWords({
  host,
  bridges = [],
  bridge,
  stored,
  target,
  words,
}: Facts): [mask: string, word: string][] {
  const keys = (host.keys.found ?? []).flatMap(({ fingerprint, userIds, userId, keygrips }, at) => [
    ...[fingerprint, fingerprint.slice(-16), ...keygrips, ...keygrips.map((grip) => grip.slice(-16))].map(
      (word): [string, string] => [`key ${at + 1}`, word],
    ),
    ...[userId, ...userIds].flatMap((word): [string, string][] => [
      [`user id ${at + 1}`, word],
      [`user id ${at + 1}`, shownUserId(word)],
      [`address ${at + 1}`, /<([^<>]+)>/.exec(word)?.[1] ?? ''],
    ]),
  ]);
  const ssh = (host.sshAgent.found?.keys ?? []).flatMap(
    ({ fingerprint, comment, base64 }, at): [string, string][] =>
      [fingerprint, comment, base64].map((word) => [`ssh key ${at + 1}`, word]),
  );
  const git = [...(target?.git?.settings ?? [])]
    .filter(([name]) => name.startsWith('user.'))
    .map(([name, { value }]): [string, string] => [name, value]);
  const kept: Named[] = stored?.found ? [{ options: stored.found, offers: {}, leftOut: [] }] : [];
  const named = [...bridges, ...(bridge?.found ? [bridge.found] : []), ...kept].flatMap(
    ({ options, offers, leftOut }) => [
      ...[
        ...(options.gpgKeys ?? []),
        ...(options.sshKeys ?? []).flatMap((key) => [key, shownSshKey(key)]),
      ].map((word): [string, string] => ['offered key', word]),
      ...[
        ...(offers.sshKeys ?? []).flatMap(({ fingerprint, name = '' }) => [fingerprint, name]),
        ...leftOut.flatMap((why) => why.match(FINGERPRINT) ?? []),
      ].map((word): [string, string] => ['SSH key', word]),
      ['user there', options.user !== undefined && isTelling(options.user) ? options.user : ''] as [
        string,
        string,
      ],
    ],
  );
  const targets = [words?.target, bridge?.found?.target, ...bridges.map((one) => one.target)];
  return [
    ...keys,
    ...ssh,
    ...git,
    ...named,
    ...targets.flatMap((word = ''): [string, string][] => [
      ['target', word],
      ['target', word.replace(/^[a-z0-9]+:/, '')],
    ]),
    ['GnuPG home', host.home?.path ?? ''],
    ['GnuPG home there', target?.gnupg.found?.home ?? ''],
    ['home', host.env.HOME ?? ''],
    ['home there', target && target.home.path !== '/root' ? target.home.path : ''],
    ['host', hostname()],
    ['user', isTelling(userInfo().username) ? userInfo().username : ''],
  ];
}

/** Names that are the same on every machine tell nothing, and stand in many paths. */
function isTelling(user: string): boolean {
  return !['root', 'user', 'dev', 'vscode', 'admin'].includes(user);
}
