import { shellQuote } from '../targets/shell-quote.ts';
import type { Check } from './check.ts';
import type { Facts, Words } from './facts.ts';
import { count, failure, fine, type Judgement, warning } from './finding.ts';
import { keyName } from './host-checks.ts';
import { judgeSocket } from './socket-judgement.ts';
import { FIND_SYSTEMD, SYSTEMD_UNITS, type TargetFacts } from './target-facts.ts';
import { badPair, FIRST_KEYBOXD, isOlder } from './versions.ts';

/** gpg's numbers for ownertrust. */
const NEVER = 3;
const ULTIMATE = 6;

/** What is checked in a target, in the order in which it is shown. */
export const TARGET_CHECKS: readonly Check[] = [
  there('target-home', judgeHome),
  there('target-gpg', judgeGpg),
  there('target-gnupg-home', judgeGnupgHome),
  there('target-versions', judgeVersions),
  there('target-socket-path', judgeSocketPath),
  there('target-socket', (target, words, facts) => judgeSocket('gpg-agent', target, words, facts)),
  there('target-ssh-socket', (target, words, facts) => judgeSocket('ssh-agent', target, words, facts)),
  there('target-second-forward', judgeSecondForward),
  there('target-systemd', judgeSystemd),
  there('target-autostart', judgeAutostart),
  there('target-keyboxd', judgeKeyboxd),
  there('target-own-keys', judgeOwnKeys),
  there('target-keys', judgeKeys),
  there('target-trust', judgeTrust),
  there('target-ssh-auth-sock', judgeLogin),
];

type TargetJudge = (target: TargetFacts, words: Words, facts: Facts) => Judgement | undefined;

/** A check that needs a target that was looked into. */
function there(id: string, judge: TargetJudge): Check {
  return {
    id,
    side: 'target',
    judge: (facts) => (facts.target && facts.words ? judge(facts.target, facts.words, facts) : undefined),
  };
}

function judgeHome({ uid, home }: TargetFacts, words: Words): Judgement {
  if (home.exists && home.isWritable) return fine(`user ${uid}, home ${home.path}`);
  const why = home.exists ? "can't be written to" : 'does not exist';
  return failure(
    `the home of user ${uid}, ${home.path}, ${why}`,
    words.bridge('up', '--home', `/tmp/gpg-bridge-${uid}`),
  );
}

function judgeGpg({ gnupg, gpgVersion, install }: TargetFacts, words: Words): Judgement {
  if (gnupg.found && gpgVersion) return fine(`GnuPG ${gpgVersion}`);
  const missing = gnupg.error?.why ?? 'the target has no gpg on its PATH';
  return failure(missing, words.there(`${install} gnupg`));
}

function judgeGnupgHome({ gnupg, gnupgHome, uid }: TargetFacts, words: Words): Judgement | undefined {
  if (!gnupg.found || !gnupgHome) return undefined;
  const path = shellQuote(gnupg.found.home);
  if (gnupgHome.uid !== uid) {
    const why = `${gnupg.found.home} belongs to user ${gnupgHome.uid}, not to ${uid}`;
    return warning(why, words.there(`chown -R ${uid} ${path}`));
  }
  if ((gnupgHome.mode & 0o077) !== 0) {
    const why = `${gnupg.found.home} is open to others (mode ${gnupgHome.mode.toString(8)}), which gpg warns about`;
    return warning(why, words.there(`chmod 700 ${path}`));
  }
  return fine(gnupg.found.home);
}

function judgeVersions(
  { gpgVersion, install }: TargetFacts,
  words: Words,
  { host }: Facts,
): Judgement | undefined {
  const agent = host.agent.found?.version;
  if (!agent || !gpgVersion) return undefined;
  const bad = badPair(agent, gpgVersion);
  if (bad) {
    return failure(
      bad.why,
      bad.update === 'host' ? 'sudo apt-get install gnupg' : words.there(`${install} gnupg`),
    );
  }
  const note = isOlder(agent, gpgVersion)
    ? '; gpg there warns that the agent is older, which does no harm'
    : '';
  return fine(`gpg ${gpgVersion} there, gpg-agent ${agent} here${note}`);
}

function judgeSocketPath(
  { sockets, uid }: TargetFacts,
  words: Words,
  { line }: Facts,
): Judgement | undefined {
  if (line?.error) return undefined;
  const long = sockets.find(({ tooLong }) => tooLong !== undefined);
  if (!long) return fine('the paths of the sockets are short enough');
  const shorter = words.target.startsWith('local:')
    ? `gpg-bridge up local:~/.gpg-bridge-home`
    : words.bridge('up', '--home', `/tmp/gpg-bridge-${uid}`);
  return failure(`${long.path}: ${long.tooLong}`, shorter);
}

/** What the bridge's end in a target calls itself, where its runtime lets it. */
const SERVER_NAME = 'gpg-bridge socket server';
const NAMED_RUNTIMES: ReadonlySet<string> = new Set(['node', 'perl']);

/** Programs that still listen on a socket which had the path before. */
function judgeSecondForward(
  { sockets }: TargetFacts,
  words: Words,
  { bridge }: Facts,
): Judgement | undefined {
  if (!bridge?.found) return undefined;
  const commands = sockets.find(({ type, bridge: key }) => type === 'gpg-agent' && key)?.commands ?? [];
  // The newest socket is the bridge's, but the kernel numbers them in order for each processor alone.
  const isNamed = NAMED_RUNTIMES.has(bridge.found.runtime);
  const own = Math.max(
    0,
    commands.findIndex((command) => command.startsWith(SERVER_NAME) === isNamed),
  );
  const others = commands.filter((_command, at) => at !== own);
  if (others.length === 0) return fine('nothing else wants the path of the socket');
  const pids = others.map((command) => /\(pid (\d+)\)$/.exec(command)?.[1]).join(' ');
  return warning(
    `another program had the socket, and may take it back: ${others.join(', ')}`,
    words.there(`kill ${pids}`),
  );
}

function judgeSystemd({ systemdSockets }: TargetFacts, words: Words): Judgement {
  if (systemdSockets.length === 0) return fine('systemd starts no gpg-agent there');
  const units = ['gpg-agent.service', ...SYSTEMD_UNITS].join(' ');
  return warning(
    `systemd listens for gpg-agent there (${systemdSockets.join(', ')}) and puts one in the bridge's place`,
    words.there(`${FIND_SYSTEMD}; systemctl --user mask --now ${units}`),
  );
}

function judgeAutostart(
  { hasNoAutostart, hasOwnKeys, gnupg }: TargetFacts,
  words: Words,
  { bridge }: Facts,
): Judgement | undefined {
  if (!gnupg.found) return undefined;
  if (!hasNoAutostart) return fine('gpg there may start an agent when no bridge is up; `up` takes its place');
  if (bridge?.found || !hasOwnKeys)
    return fine('no-autostart is set: gpg there never starts an agent of its own');
  const files = ['gpg.conf', 'common.conf']
    .map((name) => shellQuote(`${gnupg.found.home}/${name}`))
    .join(' ');
  return warning(
    'no-autostart is set and no bridge is up, so the private keys there have no agent',
    words.there(`sed -i.bak /no-autostart/d $(ls ${files} 2>/dev/null)`),
  );
}

function judgeKeyboxd(
  { keyboxd, keys, gpgVersion, gnupg }: TargetFacts,
  words: Words,
): Judgement | undefined {
  if (!gnupg.found || !gpgVersion) return undefined;
  if (!keyboxd) return fine('public keys are in a keyring file');
  const remove = words.there(`sed -i.bak /use-keyboxd/d ${shellQuote(`${gnupg.found.home}/common.conf`)}`);
  if (isOlder(gpgVersion, FIRST_KEYBOXD)) {
    return warning(`common.conf has use-keyboxd, which gpg ${gpgVersion} does not know`, remove);
  }
  if (!keyboxd.program) return failure('common.conf has use-keyboxd, and there is no keyboxd', remove);
  const rest = keys ? '' : '; it does not run now, so they were not looked at';
  return fine(`keyboxd keeps the public keys${rest}`);
}

function judgeOwnKeys(
  { hasOwnKeys, gnupg }: TargetFacts,
  words: Words,
  { bridge }: Facts,
): Judgement | undefined {
  if (!gnupg.found) return undefined;
  const isBridged = bridge?.found?.sockets.some(({ type }) => type === 'gpg-agent') ?? false;
  if (!hasOwnKeys || !isBridged)
    return fine(hasOwnKeys ? 'there are private keys' : 'there are no private keys');
  return warning(
    `the private keys in ${gnupg.found.home} can't be used while the bridge is up`,
    words.bridge('down'),
  );
}

/** The host's keys that a bridge is for, if there is a bridge that brings them. */
function wantedKeys({ bridge, host }: Facts) {
  const status = bridge?.found;
  if (!status?.sockets.some(({ type }) => type === 'gpg-agent')) return [];
  return (host.keys.found ?? []).filter(({ revoked }) => !revoked);
}

function judgeKeys({ keys }: TargetFacts, words: Words, facts: Facts): Judgement | undefined {
  const wanted = wantedKeys(facts);
  if (wanted.length === 0 || !keys) return undefined;
  const choice = facts.bridge?.found?.options.keys ?? 'pairs';
  const present = new Map(keys.listed.map((key) => [key.fingerprint, key]));
  const missing = wanted.filter(({ fingerprint }) => !present.has(fingerprint));
  // A person who named keys wants no others.
  if (missing.length > 0 && !(Array.isArray(choice) && missing.length < wanted.length)) {
    return failure(`the public keys are not there: ${missing.map(keyName).join(', ')}`, sync(words, facts));
  }
  const stale = wanted.filter((key) => key.canSign && present.get(key.fingerprint)?.expired);
  if (stale.length > 0) {
    const shown = stale.map(keyName).join(', ');
    return failure(
      `the copies of public keys there have expired, those here have not: ${shown}`,
      sync(words, facts),
    );
  }
  const there = wanted.length - missing.length;
  return fine(`${count(there, 'public key')} of yours ${there === 1 ? 'is' : 'are'} there`);
}

/** Brings the host's public keys and their trust again, also to a bridge that was told to bring none. */
function sync(words: Words, { bridge }: Facts): string {
  return bridge?.found?.options.keys === 'none'
    ? words.bridge('up', '--keys', 'pairs')
    : words.bridge('keys sync');
}

function judgeTrust({ keys }: TargetFacts, words: Words, facts: Facts): Judgement | undefined {
  const here = new Set(keys?.listed.map(({ fingerprint }) => fingerprint));
  const wanted = wantedKeys(facts).filter(({ fingerprint }) => here.has(fingerprint));
  if (wanted.length === 0 || !keys) return undefined;
  const refused = wanted.filter(({ fingerprint }) => keys.trust.get(fingerprint) === NEVER);
  if (refused.length > 0) {
    const lines = refused.map(({ fingerprint }) => `${fingerprint}:${ULTIMATE}:`).join('\\n');
    return warning(
      `the user there trusts these keys never: ${refused.map(keyName).join(', ')}`,
      words.there(`printf '${lines}\\n' | gpg --import-ownertrust`),
    );
  }
  const untrusted = wanted.filter(({ fingerprint }) => keys.trust.get(fingerprint) !== ULTIMATE);
  if (untrusted.length === 0) return fine('they are trusted');
  return warning(`they are not trusted there: ${untrusted.map(keyName).join(', ')}`, sync(words, facts));
}

function judgeLogin({ login }: TargetFacts, words: Words, { bridge }: Facts): Judgement | undefined {
  const ssh = bridge?.found?.sockets.find(({ type }) => type === 'ssh-agent');
  // The login shell of this machine has this machine's own agent.
  if (!ssh || !login || words.target.startsWith('local:')) return undefined;
  if (login.sshAuthSock === ssh.path) return fine(`a login shell has SSH_AUTH_SOCK=${ssh.path}`);
  const shown = login.sshAuthSock === '' ? 'no SSH_AUTH_SOCK' : `SSH_AUTH_SOCK=${login.sshAuthSock}`;
  const line = `export SSH_AUTH_SOCK=${shellQuote(ssh.path)}`;
  return warning(
    `a login shell there has ${shown}; \`${words.bridge('shell')}\` sets it`,
    words.there(`echo ${shellQuote(line)} >> ~/${login.file}`),
  );
}
