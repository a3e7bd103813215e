import { closeSync, existsSync, writeSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { toBridgeError } from '@gpg-bridge/core/errors';
import { SOCKET_TYPES } from '@gpg-bridge/core/socket-type';
import { printableValue } from '@gpg-bridge/core/text/escape';
import { type BridgeOptions, checkOptions, withDeadline, withHostAgents } from '../bridge-options.ts';
import { Daemon } from '../daemon/daemon.ts';
import { restoreEnvironment } from '../daemon/environment.ts';
import type { Predecessor } from '../daemon/handover.ts';
import { ensureStateDirectory } from '../daemon/make-state-dir.ts';
import {
  type BridgeFiles,
  bridgeFiles,
  checkSharedDirectory,
  filesBeside,
  stateDirectory,
} from '../daemon/state-dir.ts';
import { StoredGrants } from '../daemon/stored-grants.ts';
import { setDaemonFlags } from '../daemon/v8-flags.ts';
import { GrantChange } from '../manager/grant-change.ts';
import { resolveTarget } from '../targets/resolve.ts';
import { bridgeKey, leadsElsewhere, type Target } from '../targets/target.ts';
import { bridgeOptions, textFlag } from './flags.ts';
import { usage } from './parse.ts';
import type { ParsedCommand } from './specs.ts';

/** Runs a bridge until it is told to end, or its target goes away. */
export async function run({ flags }: ParsedCommand): Promise<number> {
  restoreEnvironment(process.env);
  const tell = readyTeller(textFlag(flags, 'ready-fd'));
  let daemon: Daemon | undefined;
  let change: GrantChange | undefined;
  try {
    const given = withDeadline(withHostAgents(bridgeOptions('serve', flags), process.env));
    checkOptions(given);
    const container = textFlag(flags, 'container');
    const spec = textFlag(flags, 'target') ?? (container === undefined ? undefined : `docker:${container}`);
    if (spec === undefined && given.exec === undefined)
      throw usage('serve', 'it needs --container or --target');
    const byName = flags['by-name'] === true || undefined;
    const target = await resolveTarget(spec, { ...given, byName });
    const key = textFlag(flags, 'expected-bridge');
    if (key !== undefined && key !== bridgeKey(target)) {
      throw leadsElsewhere(
        target.name,
        'its name came to lead to another place while the bridge was started',
      );
    }
    const own = files(textFlag(flags, 'pid-file'), target);
    // Whoever else starts a daemon has looked at what is stored, and chose the directory.
    const stored = key === undefined ? new StoredGrants() : new StoredGrants(dirname(own.pid));
    change = key === undefined ? new GrantChange(stored, target, given) : undefined;
    const started = new Daemon({
      target,
      files: own,
      options: change ? await committed(change) : given,
      stored,
      verbose: flags.verbose === true,
      predecessor: predecessor(flags),
      answerUp: async (...asked) => (await import('./answer-up.ts')).answerUp(...asked),
      // Without --ready-fd it runs in the foreground, where a person may read its log.
      ...(flags['ready-fd'] === undefined ? { echo } : {}),
    });
    daemon = started;
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
      process.on(signal, () => started.end(`it got ${signal}`));
    }
    await started.run((status) => {
      tell({ ready: status });
      change = undefined;
      void setDaemonFlags();
    });
    return 0;
  } catch (error) {
    const failure = toBridgeError(error, "can't run the bridge");
    tell({ error: failure.toJSON() });
    await change?.failed(failure);
    throw failure;
  } finally {
    await daemon?.terminalsReleased();
  }
}

/** The options under what is stored for the target, of which what was named now becomes a part. */
async function committed(change: GrantChange): Promise<BridgeOptions> {
  change.checkTime();
  await change.commit();
  return change.options;
}

/** The bridge whose place this one takes, if `up` said so. */
function predecessor(flags: ParsedCommand['flags']): Predecessor | undefined {
  const sockets = textFlag(flags, 'succeeds');
  if (sockets === undefined) return undefined;
  const listed = (text: string) => SOCKET_TYPES.filter((type) => text.split(',').includes(type));
  return {
    sockets: listed(sockets),
    keeps: listed(textFlag(flags, 'keeps') ?? ''),
    control: textFlag(flags, 'predecessor'),
    now: flags.now === true,
  };
}

function files(pidFile: string | undefined, target: Target): BridgeFiles {
  const directory = pidFile === undefined ? stateDirectory() : dirname(resolve(pidFile));
  // A directory that a person chose for the PID file may be shared (/run).
  if (pidFile === undefined) ensureStateDirectory(directory);
  else if (!existsSync(directory)) throw usage('serve', `there is no directory ${directory} for --pid-file`);
  else checkSharedDirectory(directory);
  return pidFile === undefined ? bridgeFiles(directory, bridgeKey(target)) : filesBeside(pidFile);
}

function echo(line: string): void {
  process.stderr.write(`gpg-bridge: ${printableValue(line)}\n`);
}

/** Writes the first result, ready or failed, to the descriptor that `up` waits on; later ones go to the log. */
function readyTeller(fd: string | undefined): (news: object) => void {
  let told = fd === undefined;
  return (news) => {
    if (told) return;
    told = true;
    try {
      writeSync(Number(fd), `${JSON.stringify(news)}\n`);
      closeSync(Number(fd));
    } catch {
      // The process that started this daemon has ended.
    }
  };
}
