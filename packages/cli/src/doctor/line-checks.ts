import type { BridgeError } from '@gpg-bridge/core/errors';
import { type BridgeOptions, optionChanges, withHostAgents } from '../bridge-options.ts';
import type { DaemonStatus } from '../daemon/control.ts';
import { grantSentence, grantWithExceptions } from '../grants/grant-words.ts';
import { shellQuote } from '../targets/shell-quote.ts';
import { duration } from '../terminal/format.ts';
import type { Check } from './check.ts';
import type { Facts, Words } from './facts.ts';
import { failure, fine, type Judgement, warning } from './finding.ts';

/** A question that takes longer than this makes every signature a matter of patience: a dozen of them. */
const SLOW_MS = 500;

/** Nothing runs there yet that could tell which of these it has. */
const INSTALL_RUNTIME = 'apt-get install -y perl-base || apk add perl || dnf install -y perl-interpreter';

/** What is checked on the way to a target. */
export const LINE_CHECKS: readonly Check[] = [
  { id: 'line-target', side: 'line', judge: judgeTarget },
  { id: 'line-bridge', side: 'line', judge: judgeBridge },
  { id: 'line-grant', side: 'line', judge: judgeGrant },
  { id: 'line-agents', side: 'line', judge: judgeAgents },
  { id: 'line-waiting', side: 'line', judge: judgeWaiting },
  { id: 'line-round-trip', side: 'line', judge: judgeRoundTrip },
];

function judgeTarget({ line, words }: Facts): Judgement | undefined {
  if (!line || !words) return undefined;
  if (line.error) return failure(`${line.error.what}: ${line.error.why}`, cureOf(line.error, words));
  const { runtime } = line.found;
  return fine(`${words.target} runs commands; ${runtime} there runs the bridge's end`);
}

/** What to type against an error: the command that its own advice names, if there is one. */
function cureOf({ code, fix }: BridgeError, words: Words): string {
  if (code === 'TARGET_NO_RUNTIME' && fix.includes('perl-base')) return words.there(INSTALL_RUNTIME);
  const commands = [...fix.matchAll(/`([^`]+)`/g)].map(([, command]) => command!);
  // An engine starts a container that is stopped and refuses one that is paused.
  if (code === 'TARGET_NOT_RUNNING' && commands[1]?.includes(' unpause ')) return commands.join(' || ');
  return commands[0] ?? fix;
}

function judgeBridge({ bridge, stored, words, target }: Facts): Judgement | undefined {
  if (!bridge || !words) return undefined;
  if (bridge.error) return failure(bridge.error.why, words.bridge('down', '--force'));
  const status = bridge.found;
  if (!status) return judgeNoBridge(stored, words);
  const isForwarded = target?.sockets.some(
    (socket) => socket.finding.found?.found === 'forward' && socket.bridge?.key !== status.key,
  );
  const judged = judgeRunning(status, words, isForwarded);
  // An `up` would only fail for the same reason.
  return stored?.error && status.problems.length > 0 ? { ...judged, fix: stored.error.fix } : judged;
}

/** Where there is no bridge; a plain `up` is not suggested where it would be refused. */
function judgeNoBridge(stored: Facts['stored'], words: Words): Judgement {
  const none = 'no bridge is up: the keys of this machine are not there';
  if (stored?.error) return warning(none, stored.error.fix);
  const over = timeOver(stored?.found);
  if (over === undefined) return warning(none, words.bridge('up'));
  return warning(`${none}; ${over}`, words.bridge('up', '--for', '1h'));
}

function timeOver({ until }: BridgeOptions = {}): string | undefined {
  if (until === undefined || Date.parse(until) > Date.now()) return undefined;
  return `its time (--for) was over at ${until.replace(/\.\d+Z$/, 'Z')}`;
}

/** What is to be said about a bridge that runs. */
function judgeRunning(status: DaemonStatus, words: Words, isForwarded = false): Judgement {
  const { state, problems, pid, uptimeSeconds, sockets, paused } = status;
  if (state === 'not-answering') {
    return failure(`its daemon (pid ${pid}) does not answer`, words.bridge('down', '--force'));
  }
  if (problems.length > 0) {
    // What another forward or bridge holds is only taken from it by a person who says so.
    const takeover = isForwarded || problems.some((text) => text.includes('--takeover'));
    return failure(problems.join('; '), words.bridge('up', ...(takeover ? ['--takeover'] : [])));
  }
  if (state !== 'ready') return warning(`it is ${state.replaceAll('-', ' ')}`, words.bridge('up'));
  if (paused) {
    const until = paused.until === null ? '' : ` until ${paused.until}`;
    return warning(`it is paused${until}: nothing is signed or decrypted`, 'gpg-bridge resume');
  }
  const shown = sockets.map(({ path }) => path).join(', ');
  return fine(`up for ${duration(uptimeSeconds)} (pid ${pid}): ${shown}`);
}

/** What the target may do: it is as a person said, and so right. */
function judgeGrant({ bridge, stored, words }: Facts): Judgement | undefined {
  if (stored?.error) return failure(`${stored.error.what}: ${stored.error.why}`, stored.error.fix);
  if (bridge?.found) return fine(grantWithExceptions(bridge.found));
  if (!stored?.found || !words) return undefined;
  const over = timeOver(stored.found);
  if (over !== undefined) return fine(`${words.target} may use no key: ${over}`);
  const granted = { target: words.target, options: stored.found, sockets: [] };
  return fine(`once its bridge is up, ${grantSentence(granted)}`);
}

/** Whether a bridge uses the agents that a new one would. */
function judgeAgents({ bridge, words, host }: Facts): Judgement | undefined {
  const status = bridge?.found;
  if (!status || !words) return undefined;
  const { gnupgHome, sshAuthSock, ...rest } = status.options;
  const now = withHostAgents(rest, host.env);
  const moved = optionChanges(
    { gnupgHome: gnupgHome!, sshAuthSock: sshAuthSock! },
    {
      gnupgHome: now.gnupgHome!,
      // An environment without one says nothing against the one that is used.
      sshAuthSock: now.sshAuthSock ?? sshAuthSock!,
    },
  );
  if (moved.length > 0) {
    const shown = moved.map(({ option, from, to }) => `${option} was ${from} and is ${to} in this shell`);
    return warning(`the bridge uses other agents: ${shown.join('; ')}`, words.bridge('up'));
  }
  const gained = status.missing.filter((type) =>
    type === 'ssh-agent' ? host.sshAgent.found : host.extraSocket.found,
  );
  if (gained.length > 0) {
    return warning(
      `${gained.join(' and ')} was missing when the bridge came up, and is there now`,
      words.bridge('up'),
    );
  }
  return fine(`it uses this machine's ${status.sockets.map(({ type }) => type).join(' and ')}`);
}

function judgeWaiting({ bridge }: Facts): Judgement | undefined {
  const waiting = bridge?.found?.waiting;
  if (!waiting) return undefined;
  const key = waiting.key ? ` with key ${waiting.key.slice(-16)}` : '';
  return warning(
    `${waiting.command}${key} has waited for your PIN, passphrase or touch for ${duration(waiting.sinceSeconds)}; if nothing asks you for one, end it`,
    'gpgconf --kill gpg-agent',
  );
}

function judgeRoundTrip({ line, words }: Facts): Judgement | undefined {
  if (!line?.found || !words) return undefined;
  const { launchMs, serverMs, callMs, agentMs } = line.found;
  const hops = [
    `${ms(launchMs)} until a command runs`,
    `${ms(serverMs)} more until the bridge's end is ready`,
    `${ms(callMs)} there and back`,
    ...(agentMs === undefined ? [] : [`${ms(agentMs)} from a socket there to gpg-agent here and back`]),
  ];
  if (callMs > SLOW_MS) {
    return warning(`the line is slow: ${hops.join(', ')}`, `time ${words.there(':')}`);
  }
  return fine(hops.join(', '));
}

function ms(time: number): string {
  return time < 10 ? `${time.toFixed(1)} ms` : `${Math.round(time)} ms`;
}

/** The checks of all bridges: how each works, and what it lets its target do. */
export function bridgeChecks(
  bridges: readonly DaemonStatus[],
  wordsFor: (status: DaemonStatus) => Words,
): Check[] {
  return bridges.flatMap((status): Check[] => {
    const name = `${status.target}${status.options.user === undefined ? '' : ` as ${shellQuote(status.options.user)}`}`;
    return [
      { id: `bridge:${name}`, side: 'line', judge: () => judgeRunning(status, wordsFor(status)) },
      // Of one that does not answer nothing but its process is known.
      ...(status.state === 'not-answering'
        ? []
        : [{ id: `grant:${name}`, side: 'line' as const, judge: () => fine(grantWithExceptions(status)) }]),
    ];
  });
}
