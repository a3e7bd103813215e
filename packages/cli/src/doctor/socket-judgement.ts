import type { PathFinding } from '@gpg-bridge/core/remote/inspect-path';
import type { SocketType } from '@gpg-bridge/core/socket-type';
import { shellQuote } from '../targets/shell-quote.ts';
import type { Facts, Words } from './facts.ts';
import { failure, fine, type Judgement, warning } from './finding.ts';
import type { SocketFacts, TargetFacts } from './target-facts.ts';

/** What serves a Dev Container, a Codespace or VS Code's own remotes. */
const EDITOR = /vscode-remote-containers|vscode-server|devcontainer|codespaces/i;

/** What each finding means while no bridge of ours is to be there, and while one is. */
type Judge = (socket: SocketFacts, words: Words, scene: Scene) => Judgement;

interface Scene {
  /** A bridge of ours should be there. */
  isBridged: boolean;
  /** Of the target's user. */
  home: string;
}

const JUDGES: Readonly<Record<PathFinding['found'], Judge>> = {
  nothing: ({ path }, words, { isBridged }) =>
    isBridged ? failure(`nothing is at ${path}`, words.bridge('up')) : fine(`nothing is at ${path} yet`),
  dead: ({ path }, words) => warning(`${path} is a socket that nobody listens on`, words.bridge('up')),
  'own-agent': ({ path, commands }, words, { isBridged }) =>
    (isBridged ? failure : warning)(
      `the target's own gpg-agent is at ${path}${by(commands)}`,
      words.bridge('up'),
    ),
  forward: ({ path, commands, type }, words) => {
    const takeover = words.bridge('up', '--takeover');
    if (commands.some((command) => EDITOR.test(command))) {
      return warning(
        `an editor's own forward is at ${path}${by(commands)}; signing may already work`,
        takeover,
      );
    }
    const what = type === 'ssh-agent' ? 'another agent or forward' : 'another forward';
    return warning(`${what} is at ${path}${by(commands)}; it may already do what you want`, takeover);
  },
  hung: ({ path, commands }, words) =>
    warning(`what listens at ${path} does not answer${by(commands)}`, words.bridge('up')),
  'foreign-file': ({ path, finding }, words) => {
    const description = finding.found?.found === 'foreign-file' ? finding.found.description : 'no socket';
    return failure(
      `${path} is ${description}`,
      words.there(`mv ${shellQuote(path)} ${shellQuote(`${path}.old`)}`),
    );
  },
  'host-agent': ({ path }, words, { home }) =>
    failure(
      `${path} is the agent of this machine itself: its directory is mounted there`,
      words.bridge('up', '--home', `${home}/.gpg-bridge`),
    ),
};

/** Judges what is at the path of one of the sockets. */
export function judgeSocket(
  type: SocketType,
  target: TargetFacts,
  words: Words,
  { bridge, host }: Facts,
): Judgement | undefined {
  const socket = target.sockets.find((one) => one.type === type);
  const status = bridge?.found;
  const isBridged = status?.sockets.some((one) => one.type === type) ?? false;
  if (!socket) return undefined;
  // An ssh-agent that this machine does not have is not going to be bridged.
  if (type === 'ssh-agent' && !isBridged && host.sshAgent.error) return undefined;
  if (socket.finding.error) return failure(socket.finding.error.why, words.bridge('up'));
  if (socket.bridge !== undefined) {
    if (socket.bridge.key === status?.key) return fine(`${socket.path} is the bridge's`);
    return warning(
      `${socket.path} is the socket of the bridge to ${socket.bridge.target}: both have the same home`,
      words.bridge('up', '--takeover'),
    );
  }
  return JUDGES[socket.finding.found.found](socket, words, { isBridged, home: target.home.path });
}

function by(commands: readonly string[]): string {
  return commands.length > 0 ? `: ${commands[0]}` : '';
}
