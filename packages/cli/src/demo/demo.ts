import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { parseKeyListing } from '@gpg-bridge/core/gnupg/key-listing';
import { AgentProxy } from '@gpg-bridge/core/host/agent-proxy';
import { HostGpgAgent } from '@gpg-bridge/core/host/gpg-agent';
import { noLog } from '@gpg-bridge/core/log';
import { DirectOperations } from '@gpg-bridge/core/remote/direct-operations';
import { importPublicKeys } from '@gpg-bridge/core/remote/keyring';
import { startRequestProxy } from '@gpg-bridge/core/remote/request-proxy';
import { Bridge } from '../bridge/bridge.ts';
import { Journal } from '../bridge/journal.ts';
import { localTarget } from '../targets/spawned-targets.ts';
import { medianRoundTrips, overCommands, overSocket, type Path } from './round-trips.ts';
import type { Sandbox } from './sandbox.ts';

const PERSON = 'Ada Demo <ada@example.org>';

/** How the demo tells what it does: a step that begins, and facts about it. */
export interface Narrator {
  step(text: string): void;
  fact(text: string): void;
  /** How long each hop takes. */
  table(rows: readonly (readonly [what: string, time: string])[]): void;
}

/** The host: a home of GnuPG with a throw-away key and its agent. */
interface Host {
  env: NodeJS.ProcessEnv;
  fingerprint: string;
  agentPath: string;
}

/** Signs a commit across both carriers, each into a home of its own, and verifies it. */
export async function runDemo(sandbox: Sandbox, tell: Narrator): Promise<void> {
  const host = await makeHost(sandbox, tell);
  await throughProxies(sandbox, host, tell);
  await throughStdio(sandbox, host, tell);
}

async function makeHost(sandbox: Sandbox, tell: Narrator): Promise<Host> {
  tell.step('On the host: a GNUPGHOME with a throw-away key, and its gpg-agent');
  const env = await sandbox.home('host');
  await sandbox.run(
    'gpg',
    ['--batch', '--passphrase', '', '--quick-gen-key', PERSON, 'ed25519', 'sign', '1d'],
    env,
  );
  const listing = await sandbox.run('gpg', ['--batch', '--with-colons', '--list-secret-keys'], env);
  const fingerprint = parseKeyListing(listing)[0]?.fingerprint ?? '';
  const agent = new HostGpgAgent({ env });
  (await agent.connect()).socket.destroy(); // checked to be the restricted socket
  const path = await agent.socketPath();
  tell.fact(`key ${fingerprint}`);
  tell.fact(`agent's restricted socket ${path}`);
  return { env, fingerprint, agentPath: path };
}

/** Carrier (a): RequestProxy and AgentProxy, as the two VS Code extensions join them. */
async function throughProxies(sandbox: Sandbox, host: Host, tell: Narrator): Promise<void> {
  tell.step('Bridge 1: RequestProxy and AgentProxy, as in VS Code');
  const env = await sandbox.home('vscode');
  const agentProxy = new AgentProxy({ env: host.env });
  const { keys, trust } = await agentProxy.exportPublicKeys('pairs');
  await importPublicKeys({ keys: Buffer.from(keys, 'base64'), trust }, new DirectOperations({ env }));
  const requestProxy = await startRequestProxy({ env }, { commandExecutor: agentProxy });
  try {
    tell.fact(`target's socket ${requestProxy.socketPath}`);
    await signAndVerify(sandbox, 'one', env, host, tell);
    tell.table(
      await hops([
        ['gpg-agent itself', await overSocket(host.agentPath)],
        ['+ AgentProxy (host end)', await overCommands(agentProxy)],
        ['+ RequestProxy (target end)', await overSocket(requestProxy.socketPath)],
      ]),
    );
  } finally {
    await requestProxy.stop();
    await agentProxy.stop();
  }
}

/** Carrier (b): a socket server in a process of its own, as `gpg-bridge up` starts it in a target. */
async function throughStdio(sandbox: Sandbox, host: Host, tell: Narrator): Promise<void> {
  tell.step('Bridge 2: a socket server over stdin and stdout, as `gpg-bridge up` uses it');
  const env = await sandbox.home('local');
  const bridge = await Bridge.start({
    target: await localTarget(env.GNUPGHOME ?? ''),
    agents: { gpg: new HostGpgAgent({ env: host.env }) },
    hostEnv: host.env,
    keys: 'pairs',
    journal: new Journal(() => {}),
    log: noLog,
  });
  try {
    const path = bridge.info.sockets[0]?.path ?? '';
    tell.fact(`target's socket ${path}, served by ${bridge.info.runtime}`);
    await signAndVerify(sandbox, 'two', env, host, tell);
    tell.table(
      await hops([
        ['gpg-agent itself', await overSocket(host.agentPath)],
        ['+ the bridge: socket server, pipe, host end', await overSocket(path)],
      ]),
    );
  } finally {
    await bridge.stop();
  }
}

async function signAndVerify(
  sandbox: Sandbox,
  name: string,
  env: NodeJS.ProcessEnv,
  host: Host,
  tell: Narrator,
): Promise<void> {
  const repository = join(sandbox.directory, name);
  await mkdir(repository);
  const git = (...args: string[]) =>
    sandbox.run(
      'git',
      ['-C', repository, '-c', 'user.name=Ada Demo', '-c', 'user.email=ada@example.org', ...args],
      env,
    );
  await git('init', '--quiet');
  const start = process.hrtime.bigint();
  await git(
    '-c',
    `user.signingkey=${host.fingerprint}`,
    'commit',
    '--quiet',
    '--allow-empty',
    '-S',
    '-m',
    'Signed from afar',
  );
  const took = Number(process.hrtime.bigint() - start) / 1e6;
  await git('verify-commit', 'HEAD'); // fails the demo if the signature is not good
  const [verdict, signer] = (await git('log', '-1', '--format=%G?%n%GF')).split('\n');
  tell.fact(`git commit -S took ${took.toFixed(0)} ms, from the first byte of git to the last of gpg`);
  tell.fact(`git verify-commit: ${verdict === 'G' ? 'good signature' : `verdict ${verdict}`} by ${signer}`);
}

/**
 * What each hop adds to a round trip: the paths go each one hop further than the one before. A hop that takes
 * less than the measurement varies adds nothing, never less than that, and the rows add up to the whole.
 */
async function hops(paths: readonly (readonly [what: string, path: Path])[]): Promise<[string, string][]> {
  const medians = await medianRoundTrips(paths.map(([, path]) => path));
  let upToHere = 0;
  const rows = paths.map(([what], index): [string, string] => {
    const before = upToHere;
    upToHere = Math.max(before, medians[index]!);
    return [what, micro(upToHere - before)];
  });
  const added = upToHere - Math.min(upToHere, medians[0]!);
  return [
    ...rows,
    ['one round trip, all in all', micro(upToHere)],
    [`${CROSSINGS} of a signature's 12 round trips cross, which adds`, milli(CROSSINGS * added)],
  ];
}

/** Round trips of a signature that wait for the host's agent; the others are answered ahead. */
const CROSSINGS = 2;

function milli(microseconds: number): string {
  return `${(microseconds / 1_000).toFixed(1)} ms`;
}

function micro(microseconds: number): string {
  return `${microseconds.toFixed(0)} µs`;
}
