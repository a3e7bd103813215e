import { type BridgeError, toBridgeError } from '@gpg-bridge/core/errors';
import { exportPublicKeys } from '@gpg-bridge/core/host/public-keys';
import { HostMuxer } from '@gpg-bridge/core/mux/host-muxer';
import type { ReadyInfo } from '@gpg-bridge/core/mux/ready';
import { type SocketSetup, serveSockets } from '@gpg-bridge/core/remote/serve-sockets';
import { WireOperations } from '@gpg-bridge/core/remote/wire-operations';
import type { SocketType } from '@gpg-bridge/core/socket-type';
import type { BridgeParts } from './bridge-parts.ts';
import { setUpGit } from './git-setup.ts';
import { KeySync } from './key-sync.ts';
import { serveAgents } from './serve-agents.ts';
import { LAUNCH_TIMEOUT_MS, notAnswered, type StartedServer } from './start-server.ts';
import { inItsWords, noSockets } from './target-failure.ts';
import { TargetSockets } from './target-sockets.ts';
import { LAST_WORDS_MS, within } from './within.ts';

/** A target whose clients are served. */
export interface ServedTarget {
  muxer: HostMuxer;
  sockets: TargetSockets;
  /** Absent if the target gets no gpg-agent. */
  keySync: KeySync | undefined;
}

/** What the host finds out while the target starts its runtime. */
export function askHost(parts: Pick<BridgeParts, 'agents' | 'keys' | 'hostEnv'>) {
  const agents = Promise.resolve(parts.agents);
  const keys = parts.keys && exportPublicKeys(parts.keys, parts.hostEnv ? { env: parts.hostEnv } : {});
  const hostSockets = agents.then(async ({ gpg, ssh }) =>
    (await Promise.all([gpg?.identities() ?? [], ssh?.identities() ?? []])).flat(),
  );
  // None of them is unhandled if another one fails.
  const settled = Promise.allSettled([agents, keys, hostSockets]);
  return { agents, keys, hostSockets, settled };
}

/** What the host knows of itself. */
export type HostSide = ReturnType<typeof askHost>;

/** Makes the sockets in the target through its server, and joins their clients with the host's agents. */
export async function serveTarget(
  { exec, runtime, stderr }: StartedServer,
  host: HostSide,
  parts: BridgeParts,
): Promise<ServedTarget> {
  const { target, use, heartbeat, log, takeover, succeeds, holderOf, signal } = parts;
  const muxer = new HostMuxer({ input: exec.stdout, output: exec.stdin }, { heartbeat });
  let ended: BridgeError | undefined;
  const ready = new Promise<ReadyInfo>((resolve, reject) => {
    muxer.once('ready', resolve);
    muxer.once('close', (error) => {
      ended ??= error;
      reject(ended ?? givenUp());
    });
  });
  const late = setTimeout(() => {
    ended = notAnswered(target, `its socket server was not ready within ${LAUNCH_TIMEOUT_MS / 1000} s`);
    muxer.close();
  }, LAUNCH_TIMEOUT_MS);
  ready.catch(() => {}); // it may fail before the agents are known, and is awaited after them
  muxer.on('error-message', (text) => log(`the target says: ${text}`, 'error'));
  const giveUp = () => muxer.close();
  signal?.addEventListener('abort', giveUp);
  try {
    const agents = await host.agents;
    const { gpg, ssh } = agents;
    let keySync: KeySync | undefined;
    const { learn } = serveAgents(muxer, agents, parts);
    const operations = new WireOperations(muxer, await ready);
    clearTimeout(late);
    // Before there are sockets, so that the first client is served as all others are.
    await learn();
    const setup: SocketSetup = {
      gpg: gpg !== undefined,
      ssh: ssh !== undefined,
      keys: gpg && host.keys,
      takeover,
      succeeds,
      hostSockets: await host.hostSockets,
      sshDirectory: target.sshDirectory,
      holderOf,
      onClaimedAgain: (type) => {
        if (type === 'gpg-agent') keySync?.doubt();
      },
      log,
    };
    // Keys that a person named and that are not there fail the bridge before it touches anything.
    if (Array.isArray(parts.keys)) await setup.keys;
    const served = await serveSockets(operations, setup);
    const { kept, failures, missing } = served;
    if (muxer.closed) throw ended ?? givenUp();
    const required = parts.required?.find((type) => missing.includes(type));
    if (kept.length === 0 || required) throw noSockets(target, failures);
    const isKept = (wanted: SocketType) => kept.some(({ type }) => type === wanted);
    const usable = { gpg: isKept('gpg-agent'), ssh: isKept('ssh-agent'), keygrips: use?.grant?.keygrips };
    const git = parts.git ? await setUpGit(operations, usable, parts.hostEnv, log) : undefined;
    const sockets = new TargetSockets({ operations, setup, served, runtime, git });
    const given = gpg && (await host.keys?.catch(() => undefined));
    const { keys: filter, hostEnv: env, onKeysChange: onChange } = parts;
    const { imported } = served;
    if (gpg && filter) {
      keySync = new KeySync({ operations, filter, given, imported, env, onChange, log });
    }
    // What is done for git and for keys fails with a warning, also at the end of the line.
    if (muxer.closed) throw ended ?? givenUp();
    return { muxer, sockets, keySync };
  } catch (error) {
    muxer.close();
    const failure = toBridgeError(error, `can't start the bridge to ${target.name}`);
    // What its command says on its standard error may take another way, and longer.
    if (failure.code === 'TARGET_CLOSED') await within(LAST_WORDS_MS, exec.exited);
    exec.kill();
    throw inItsWords(failure, stderr());
  } finally {
    clearTimeout(late);
    signal?.removeEventListener('abort', giveUp);
  }
}

function givenUp(): Error {
  return new Error('it was given up before it was ready');
}
