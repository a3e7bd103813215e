import type { KeyDetails } from '@gpg-bridge/core/gnupg/key-listing';
import { printable } from '@gpg-bridge/core/text/escape';
import { shellQuote } from '../targets/shell-quote.ts';
import type { Check } from './check.ts';
import type { Facts } from './facts.ts';
import { count, failure, fine, type Judgement, warning } from './finding.ts';
import type { AgentFacts, PinentryFacts } from './host-facts.ts';
import { isOlder } from './versions.ts';

const INSTALL: Partial<Record<NodeJS.Platform, string>> = {
  darwin: 'brew install gnupg',
  win32: 'winget install GnuPG.Gpg4win',
};
const INSTALL_ELSEWHERE = 'sudo apt-get install gnupg';
const INSTALL_PINENTRY: Partial<Record<NodeJS.Platform, string>> = { darwin: 'brew install pinentry-mac' };
const INSTALL_PINENTRY_ELSEWHERE = 'sudo apt-get install pinentry-curses';
const RESTART_AGENT = 'gpgconf --kill gpg-agent && gpgconf --launch gpg-agent';
/** What makes a key; the person puts in who they are. */
export const MAKE_KEY = "gpg --batch --quick-gen-key 'Your Name <you@example.org>'";
/** What tells gpg-agent the terminal that it is typed in. */
export const SHOW_PINENTRY = 'export GPG_TTY="$(tty)" && gpg-connect-agent updatestartuptty /bye';
/** A key that expires within this many seconds is worth a word: two weeks. */
const SOON_SECONDS = 14 * 86_400;

/** What each way in which the extra socket can be of no use is mended by. */
const SOCKET_FIXES: Partial<Record<string, string>> = {
  AGENT_SOCKET_MISSING: `sed -i.bak '/^ *extra-socket/d' "$(gpgconf --list-dirs homedir)/gpg-agent.conf" && ${RESTART_AGENT}`,
  AGENT_NOT_RESTRICTED: `rm -f "$(gpgconf --list-dirs agent-extra-socket)" && ${RESTART_AGENT}`,
  AGENT_SOCKET_FILE_MALFORMED: `rm -f "$(gpgconf --list-dirs agent-extra-socket)" && ${RESTART_AGENT}`,
};

/** What is checked on this machine, in the order in which it is shown. */
export const HOST_CHECKS: readonly Check[] = [
  {
    id: 'host-gpg',
    side: 'host',
    judge: ({ host: { gpg } }) =>
      gpg.error
        ? failure(gpg.error.why, installGnupg())
        : fine(`GnuPG ${gpg.found.version ?? 'of an unknown version'}, ${gpg.found.path}`),
  },
  {
    id: 'host-gpgconf',
    side: 'host',
    judge: ({ host: { gpgconf } }) =>
      gpgconf.error ? failure(gpgconf.error.why, installGnupg()) : fine(gpgconf.found.path),
  },
  { id: 'host-home', side: 'host', judge: judgeHome },
  { id: 'host-agent', side: 'host', judge: judgeAgent },
  { id: 'host-extra-socket', side: 'host', judge: judgeExtraSocket },
  { id: 'host-keys', side: 'host', judge: judgeKeys },
  { id: 'host-keys-expired', side: 'host', judge: judgeExpired },
  { id: 'host-keys-revoked', side: 'host', judge: judgeRevoked },
  { id: 'host-pinentry', side: 'host', judge: judgePinentry },
  { id: 'host-ssh-agent', side: 'host', judge: judgeSshAgent },
  {
    id: 'host-state',
    side: 'host',
    judge: ({ host: { state } }) =>
      state.problem
        ? failure(`can't keep state in ${state.path}: ${state.problem}`, state.fix)
        : fine(`state is kept in ${state.path}`),
  },
];

function installGnupg(): string {
  return INSTALL[process.platform] ?? INSTALL_ELSEWHERE;
}

function installPinentry(): string {
  return INSTALL_PINENTRY[process.platform] ?? INSTALL_PINENTRY_ELSEWHERE;
}

function judgeHome({ host: { home } }: Facts): Judgement | undefined {
  if (!home || process.platform === 'win32') return undefined;
  if (!home.isOwn) {
    return warning(`${home.path} belongs to another user, which gpg warns about`, 'unset GNUPGHOME');
  }
  if ((home.mode & 0o077) !== 0) {
    const why = `${home.path} is open to others (mode ${home.mode.toString(8)}), which gpg warns about`;
    return warning(why, `chmod 700 ${shellQuote(home.path)}`);
  }
  return fine(home.path);
}

function judgeAgent({ host: { agent, gpg, gpgconf } }: Facts): Judgement | undefined {
  if (gpgconf.error) return undefined; // without it nothing is known
  if (agent.error) return failure(`${agent.error.what}: ${agent.error.why}`, RESTART_AGENT);
  const { version, wasStarted } = agent.found;
  const client = gpg.found?.version;
  if (version && isOlder(version, '2.1.17')) {
    return failure(`gpg-agent ${version} makes no extra socket by itself`, installGnupg());
  }
  if (version && client && isOlder(version, client)) {
    return warning(`gpg-agent ${version} still runs, and gpg is ${client}`, 'gpgconf --kill gpg-agent');
  }
  return fine(`gpg-agent ${version ?? ''} ${wasStarted ? 'did not run, and was started' : 'runs'}`);
}

function judgeExtraSocket({ host: { extraSocket, gpgconf } }: Facts): Judgement | undefined {
  if (gpgconf.error) return undefined;
  if (!extraSocket.error) return fine(`${extraSocket.found} is there, and restricted`);
  const { code, what, why } = extraSocket.error;
  return failure(`${what}: ${why}`, SOCKET_FIXES[code] ?? RESTART_AGENT);
}

function judgeKeys({ host: { keys, sshAgent, gpg } }: Facts): Judgement | undefined {
  if (gpg.error) return undefined;
  if (keys.error) return failure(`${keys.error.what}: ${keys.error.why}`, 'gpg --list-secret-keys');
  const usable = keys.found.filter(({ canSign }) => canSign);
  if (usable.length > 0) {
    return fine(`${count(usable.length, 'private key')} can sign: ${usable.map(keyName).join(', ')}`);
  }
  if (keys.found.length > 0) return failure('no private key can sign now', MAKE_KEY);
  // With SSH keys alone a bridge is of use, too.
  const verdict = sshAgent.found && sshAgent.found.keys.length > 0 ? warning : failure;
  return verdict('there is no private key, so nothing can be signed with GPG', MAKE_KEY);
}

function judgeExpired({ host: { keys } }: Facts): Judgement | undefined {
  if (!keys.found?.length) return undefined;
  const now = Date.now() / 1000;
  const expired = keys.found.filter((key) => key.expired && !key.revoked);
  const soon = keys.found.filter(
    ({ expired: isOver, revoked, expires }) =>
      !isOver && !revoked && expires !== undefined && expires < now + SOON_SECONDS,
  );
  const prolong = ({ fingerprint, subkeys }: KeyDetails) => {
    const primary = `gpg --batch --quick-set-expire ${fingerprint} 1y`;
    return subkeys.length > 0 ? `${primary} && ${primary} '*'` : primary;
  };
  if (expired.length > 0) {
    return warning(`expired: ${expired.map(keyName).join(', ')}`, expired.map(prolong).join(' && '));
  }
  if (soon.length > 0) {
    const shown = soon.map((key) => `${keyName(key)} on ${day(key.expires!)}`);
    return warning(`expires soon: ${shown.join(', ')}`, soon.map(prolong).join(' && '));
  }
  return fine('no private key has expired');
}

function judgeRevoked({ host: { keys } }: Facts): Judgement | undefined {
  if (!keys.found?.length) return undefined;
  const revoked = keys.found.filter((key) => key.revoked);
  if (revoked.length === 0) return fine('no private key is revoked');
  const shown = `revoked: ${revoked.map(keyName).join(', ')}`;
  if (keys.found.some(({ canSign }) => canSign)) return fine(`${shown}; others can be used`);
  return failure(shown, MAKE_KEY);
}

/** How pinentries of each kind get to a person; those that are not named bring a window of the system's own. */
const NEEDS: readonly { name: RegExp; needs: (env: ReadonlyMap<string, string>) => boolean }[] = [
  { name: /^pinentry-(?:curses|tty)/, needs: hasTerminal },
  // These fall back to the terminal where there is no display.
  { name: /^pinentry-(?:gtk|qt|gnome|x11|efl|fltk)/, needs: (env) => hasDisplay(env) || hasTerminal(env) },
];

function judgePinentry({ host: { pinentry, agent, gpgconf } }: Facts): Judgement | undefined {
  if (gpgconf.error || process.platform === 'win32') return undefined;
  if (!pinentry) return warning('GnuPG names no pinentry', installPinentry());
  if (!pinentry.canRun) return noPinentry(pinentry);
  const rule = NEEDS.find(({ name }) => name.test(pinentry.name));
  if (!agent.found || !rule || rule.needs(agent.found.startupEnv)) {
    return fine(`${pinentry.name}${shownAt(agent.found)}`);
  }
  return warning(
    `${pinentry.name} can't show itself to you: gpg-agent knows neither a terminal nor a display for clients of a bridge`,
    SHOW_PINENTRY,
  );
}

function noPinentry({ path, isConfigured }: PinentryFacts): Judgement {
  if (!isConfigured) {
    return failure(`there is no pinentry at ${path}`, installPinentry());
  }
  const remove = `sed -i.bak '/^ *pinentry-program/d' "$(gpgconf --list-dirs homedir)/gpg-agent.conf"`;
  return failure(`gpg-agent.conf names ${path}, which can't be run`, `${remove} && ${RESTART_AGENT}`);
}

function hasTerminal(env: ReadonlyMap<string, string>): boolean {
  return env.has('GPG_TTY');
}

function hasDisplay(env: ReadonlyMap<string, string>): boolean {
  return env.has('DISPLAY') || env.has('WAYLAND_DISPLAY');
}

function shownAt(agent: AgentFacts | undefined): string {
  const places = ['DISPLAY', 'WAYLAND_DISPLAY', 'GPG_TTY'].flatMap((name) => {
    const value = agent?.startupEnv.get(name);
    return value === undefined ? [] : [`${name}=${printable(value, 40)}`];
  });
  return places.length > 0 ? ` at ${places.join(', ')}` : '';
}

function judgeSshAgent({ host: { sshAgent, env } }: Facts): Judgement {
  if (sshAgent.error) {
    const start = 'eval "$(ssh-agent)" && ssh-add';
    if (!env.SSH_AUTH_SOCK) return warning('SSH_AUTH_SOCK is not set, so no SSH key can be bridged', start);
    return warning(`SSH_AUTH_SOCK is ${env.SSH_AUTH_SOCK}, and ${sshAgent.error.why}`, start);
  }
  const { keys, path } = sshAgent.found;
  if (keys.length === 0) return warning(`the ssh-agent at ${path} has no keys`, 'ssh-add');
  return fine(`${path} has ${count(keys.length, 'key')}`);
}

/** A key in a few words. */
export function keyName({ fingerprint, userId }: KeyDetails): string {
  return `${fingerprint.slice(-16)} (${shownUserId(userId)})`;
}

/** A user ID as it is shown: of bounded length. */
export function shownUserId(userId: string): string {
  return printable(userId, 60);
}

function day(seconds: number): string {
  return new Date(seconds * 1000).toISOString().slice(0, 10);
}
