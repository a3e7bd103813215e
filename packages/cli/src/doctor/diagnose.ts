import { BridgeError } from '@gpg-bridge/core/errors';
import type { SocketIdentity } from '@gpg-bridge/core/fs/socket-identity';
import type { BridgeOptions, BridgeSelector } from '../bridge-options.ts';
import { askDaemon, type DaemonStatus } from '../daemon/control.ts';
import { controlSockets, stateDirectory } from '../daemon/state-dir.ts';
import { grantUsers, StoredGrants } from '../daemon/stored-grants.ts';
import { heldFor } from '../grants/restrictions.ts';
import { Manager } from '../manager/manager.ts';
import { commandIn } from '../targets/command-in.ts';
import { gnupgHomeIn } from '../targets/home.ts';
import { operandWords } from '../targets/operand-words.ts';
import { resolveTarget } from '../targets/resolve.ts';
import { shellQuote } from '../targets/shell-quote.ts';
import type { Target } from '../targets/target.ts';
import { CHECKS, judge } from './checks.ts';
import type { Facts, Words } from './facts.ts';
import type { Finding } from './finding.ts';
import { HOST_CHECKS } from './host-checks.ts';
import { collectHostFacts, looked } from './host-facts.ts';
import { bridgeChecks } from './line-checks.ts';
import { collectLineFacts } from './line-facts.ts';
import { connectToTarget, type TargetConnection } from './target-connection.ts';
import { collectTargetFacts, type SocketHolder, type TargetFacts } from './target-facts.ts';
import { testSignature } from './test-signature.ts';

/** What was found, and from which facts. */
export interface Diagnosis {
  facts: Facts;
  findings: Finding[];
}

/** A target that a person named, and what else they said. */
export interface DiagnoseOptions {
  spec: string | undefined;
  selector: BridgeSelector;
  /** As the person said it. */
  name: string;
  /** Ends in a test signature. */
  sign: boolean;
  progress(text: string): void;
}

const HOLDER_TIMEOUT_MS = 3_000;

/** Checks this machine, and looks at every bridge. */
export async function diagnoseHost(): Promise<Diagnosis> {
  const [host, listed] = await Promise.all([
    collectHostFacts(),
    looked(() => new Manager().listChecked(), "can't look for bridges"), // the check of the state directory says why
  ]);
  const bridges = listed.found ?? [];
  const facts: Facts = { host, bridges };
  const wordsFor = ({ target, options }: DaemonStatus): Words =>
    wordsAbout(target, operandWords(target, options), undefined, undefined);
  return { facts, findings: judge([...HOST_CHECKS, ...bridgeChecks(bridges, wordsFor)], facts) };
}

/** Checks every hop from this machine into a target. */
export async function diagnoseTarget(options: DiagnoseOptions): Promise<Diagnosis> {
  const { spec, selector, name, sign, progress } = options;
  progress('looking at this machine');
  const [target, bridge] = await Promise.all([
    looked(() => resolveTarget(spec, selector), `can't find ${name}`),
    looked(() => answeringBridge(options), `can't ask the bridge to ${name}`),
  ]);
  if (target.error?.code === 'USAGE') throw target.error;
  const running = bridge.found;
  const home = running?.options.home;
  const words = wordsAbout(target.found?.name ?? name, operandWords(spec, selector), target.found, home);
  const host = await collectHostFacts(running?.options);
  const facts: Facts = { host, bridge, words };
  if (target.found && !bridge.error) {
    facts.stored = await looked(
      async () => storedFor(target.found, selector),
      `can't read the restrictions of ${name}`,
    );
  }
  progress(`connecting to ${name}`);
  const connection = target.error
    ? target
    : await looked(
        () => connectToTarget(target.found, connectionOptions(running)),
        `can't look into ${name}`,
      );
  if (connection.error) {
    const findings = judge(CHECKS, { ...facts, line: { error: connection.error } });
    return { facts, findings };
  }
  progress(`looking into ${name}`);
  return lookInto(connection.found as TargetConnection, target.found!, facts, sign);
}

/** The bridge to a target; one that does not answer is an error, as nothing that it does is known. */
async function answeringBridge({ spec, selector, name }: DiagnoseOptions) {
  const status = await new Manager().findChecked(spec, selector);
  if (status?.state !== 'not-answering') return status;
  throw new BridgeError('DAEMON_FAILED', {
    what: `can't ask the bridge to ${name}`,
    why: `its daemon (pid ${status.pid}) does not answer`,
    fix: `End it with \`gpg-bridge down ${operandWords(spec, selector)} --force\`.`,
  });
}

/** The restrictions that are stored for a target, with the user who was named; undefined if there are none. */
function storedFor(target: Target, { user }: BridgeSelector): BridgeOptions | undefined {
  const grants = new StoredGrants().read(target);
  if (grants.length === 0) return undefined;
  return { ...heldFor(grants, grantUsers(target)), ...(user === undefined ? {} : { user }) };
}

async function lookInto(
  connection: TargetConnection,
  target: Target,
  facts: Facts,
  sign: boolean,
): Promise<Diagnosis> {
  try {
    const line = await looked(async () => {
      facts.target = await targetFacts(connection, target, facts);
      const socket = facts.target.sockets.find(({ type }) => type === 'gpg-agent');
      return collectLineFacts(connection, socket?.bridge && socket.path);
    }, `can't look into ${target.name}`);
    facts.line = line;
    const findings = judge(CHECKS, facts);
    if (sign && !line.error) findings.push(await testSignature(connection.operations, facts));
    return { facts, findings };
  } finally {
    await connection.close();
  }
}

function targetFacts(
  { operations }: TargetConnection,
  { sshDirectory }: Target,
  { host }: Facts,
): Promise<TargetFacts> {
  return collectTargetFacts(operations, {
    hostSockets: host.sockets,
    fingerprints: (host.keys.found ?? []).map(({ fingerprint }) => fingerprint),
    gpg: host.gpg.found?.path,
    sshDirectory,
    holderOf,
  });
}

/** Reaches the target as its bridge does. */
function connectionOptions(running: DaemonStatus | undefined) {
  const { home, runtime } = running?.options ?? {};
  return { home, runtime: runtime === 'auto' ? undefined : runtime };
}

/** The bridge of this person that holds a socket. */
async function holderOf(socket: SocketIdentity): Promise<SocketHolder | undefined> {
  const answers = await Promise.all(
    controlSockets(stateDirectory()).map((control) =>
      askDaemon(control, 'holds', HOLDER_TIMEOUT_MS, socket).catch(() => undefined),
    ),
  );
  const holder = answers.find((status) => status !== undefined);
  return holder && { key: holder.key, target: holder.target };
}

function wordsAbout(
  name: string,
  operand: string,
  target: Target | undefined,
  home: string | undefined,
): Words {
  const inHome =
    home === undefined ? '' : `export HOME=${shellQuote(home)} GNUPGHOME=${shellQuote(gnupgHomeIn(home))}; `;
  return {
    target: name,
    bridge: (command, ...options) => ['gpg-bridge', command, operand, ...options.map(shellQuote)].join(' '),
    there: (script) => (target ? commandIn(target, inHome + script) : inHome + script),
  };
}
