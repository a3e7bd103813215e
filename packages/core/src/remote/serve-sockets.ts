import { join } from 'node:path/posix';
import { type BridgeError, toBridgeError } from '../errors.ts';
import type { SocketIdentity } from '../fs/socket-identity.ts';
import { splitKeyring } from '../gnupg/split-keyring.ts';
import type { LogCallback } from '../log.ts';
import type { SocketType } from '../socket-type.ts';
import { printable } from '../text/escape.ts';
import { lookAtPath, refuseIfTaken } from './claim-path.ts';
import { checkPathLength, type KeepOptions, type KeptPath, keepPath } from './keep-path.ts';
import { hasPrivateKeys, importPublicKeys, type Keyring, type KeysToImport, openKeyring } from './keyring.ts';
import type { TargetOperations } from './operations.ts';
import type { HolderOf } from './socket-holder.ts';
import { gnupgPlaces, requireGpg, stopTargetAgent } from './target-gnupg.ts';

/** Which sockets a target gets, and what goes with them. */
export interface SocketSetup {
  gpg: boolean;
  ssh: boolean;
  /** Public keys of the host; the gpg socket waits for them. */
  keys?: Promise<KeysToImport> | undefined;
  takeover?: boolean | undefined;
  /** Sockets that an earlier bridge of the same person holds: these are taken from it. */
  succeeds?: readonly SocketType[] | undefined;
  /** The host agents' own sockets, which are never replaced. */
  hostSockets?: readonly SocketIdentity[] | undefined;
  /** The directory of the ssh socket, if it is not ~/.ssh. */
  sshDirectory?: string | undefined;
  /** Asked about another forward that stands in the way. */
  holderOf?: HolderOf | undefined;
  /** A socket had to be made anew, and maybe its directory, too. */
  onClaimedAgain?: ((type: SocketType) => void) | undefined;
  probeTimeoutMs?: number | undefined;
  backlog?: number | undefined;
  log: LogCallback;
}

/** The sockets that listen, and what a person should know about them. */
export interface ServedSockets {
  sockets: { type: SocketType; path: string }[];
  /** The same, to be looked after. */
  kept: KeptPath[];
  warnings: string[];
  /** Those of the warnings that hold as long as the sockets do, beside the failures. */
  lasting: string[];
  /** Why a socket was not made. */
  failures: BridgeError[];
  /** The types of those. */
  missing: SocketType[];
  /** The rest of a large keyring is in, or why public keys could not be imported; never rejects. */
  imported: Promise<BridgeError | undefined>;
}

/** Public keys that are imported before gpg's socket listens, in bytes; more of them follow afterwards. */
const FIRST_KEYS_BYTES = 1_048_576;
/** A message of a target, whose words are its own. */
const MAX_WARNING = 1_000;
const PROBE_TIMEOUT_MS = 2_000;

/** Makes the sockets of a bridge in a target and keeps them at their paths; one that fails leaves the other. */
export async function serveSockets(operations: TargetOperations, setup: SocketSetup): Promise<ServedSockets> {
  const warnings: string[] = [];
  const failures: BridgeError[] = [];
  const missing: SocketType[] = [];
  const lasting: string[] = [];
  let isUp = false;
  /** Something the person should hear about: when it happens before the bridge is up, with that. */
  const log: LogCallback = (text, level) => {
    const line = printable(text, MAX_WARNING);
    if (!isUp && (level === 'warn' || level === 'error')) warnings.push(line);
    setup.log(line, level);
  };
  const attempt = async (step: () => Promise<KeptPath>, type: SocketType) => {
    try {
      return [await step()];
    } catch (error) {
      const failure = toBridgeError(error, "can't make the sockets of the bridge");
      failures.push(failure);
      missing.push(type);
      log(failure.message, 'warn');
      return [];
    }
  };
  let imported: ServedSockets['imported'] = Promise.resolve(undefined);
  const gpgSocket = async () => {
    const served = await serveGpg(operations, setup, log);
    imported = served.imported;
    if (served.ownKeys) lasting.push(served.ownKeys);
    return served.kept;
  };
  const made = await Promise.all([
    setup.gpg ? attempt(gpgSocket, 'gpg-agent') : [],
    setup.ssh ? attempt(() => serveSsh(operations, setup, log), 'ssh-agent') : [],
  ]);
  isUp = true;
  const kept = made.flat();
  const sockets = kept.map(({ type, path }) => ({ type, path }));
  return { sockets, kept, warnings, lasting, failures, missing, imported };
}

async function serveSsh(
  operations: TargetOperations,
  setup: SocketSetup,
  log: LogCallback,
): Promise<KeptPath> {
  const path = join(setup.sshDirectory ?? join(operations.facts.home, '.ssh'), 'agent.sock');
  const options = keepOptions(operations, setup, 'ssh-agent', path, log);
  return keepPath(operations, options);
}

async function serveGpg(
  operations: TargetOperations,
  setup: SocketSetup,
  log: LogCallback,
): Promise<{ kept: KeptPath; imported: ServedSockets['imported']; ownKeys: string | undefined }> {
  const [{ home, agentSocket: path }] = await Promise.all([gnupgPlaces(operations), requireGpg(operations)]);
  const options = keepOptions(operations, setup, 'gpg-agent', path, log);
  checkPathLength(path, operations.facts.system);
  const keyring = openKeyring(operations, home);
  keyring.catch(() => {}); // it is awaited when there are keys
  // What must not be replaced is known before the keyring is touched.
  const [look, hasOwnKeys] = await Promise.all([
    lookAtPath(operations, { ...options, timeoutMs: options.probeTimeoutMs ?? PROBE_TIMEOUT_MS }),
    hasPrivateKeys(operations, home),
  ]);
  refuseIfTaken(look.finding, { path, takeover: options.takeover ?? false });
  const ownKeys = hasOwnKeys
    ? printable(`the private keys in ${home} can't be used while the bridge is up`, MAX_WARNING)
    : undefined;
  if (ownKeys) log(ownKeys, 'warn');
  const { keys, trust } = (await setup.keys) ?? { keys: Buffer.alloc(0), trust: [] };
  const [first, rest] = splitKeyring(keys, FIRST_KEYS_BYTES);
  const importPart = (part: Buffer) => importAndTell(operations, { keys: part, trust }, keyring, log);
  const failure = first.length > 0 ? await importPart(first) : undefined;
  const kept = await keepPath(operations, options, look);
  const imported = rest.length > 0 ? importPart(rest).then((later) => failure ?? later) : failure;
  return { kept, ownKeys, imported: Promise.resolve(imported) };
}

function keepOptions(
  operations: TargetOperations,
  setup: SocketSetup,
  type: SocketType,
  path: string,
  log: LogCallback,
): KeepOptions {
  const { hostSockets, holderOf, probeTimeoutMs, backlog } = setup;
  const succeeds = setup.succeeds?.includes(type);
  const takeover = setup.takeover || succeeds;
  const stopOwnAgent = () => stopTargetAgent(operations);
  return {
    type,
    path,
    log,
    takeover,
    succeeds,
    hostSockets,
    holderOf,
    probeTimeoutMs,
    backlog,
    stopOwnAgent,
    onClaimedAgain: () => setup.onClaimedAgain?.(type),
  };
}

/** Keys that can't be imported are said, and leave the socket. Resolves to why they can't. */
async function importAndTell(
  operations: TargetOperations,
  keys: KeysToImport,
  keyring: Promise<Keyring>,
  log: LogCallback,
): Promise<BridgeError | undefined> {
  try {
    const { added, updated, unchanged } = await importPublicKeys(keys, operations, keyring);
    const seen = added + updated + unchanged;
    log(`imported public keys: ${seen} received, ${added} new, ${unchanged} unchanged`, 'info');
    return undefined;
  } catch (error) {
    const failure = toBridgeError(error, "can't import the host's public keys");
    log(failure.message, 'warn');
    return failure;
  }
}
