import { closeSync, existsSync, writeSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { toBridgeError } from '@gpg-bridge/core/errors';
import { Daemon } from '../daemon/daemon.ts';
import { restoreEnvironment } from '../daemon/environment.ts';
import {
  type BridgeFiles,
  bridgeFiles,
  ensureStateDirectory,
  filesBeside,
  stateDirectory,
} from '../daemon/state-dir.ts';
import { resolveTarget } from '../targets/resolve.ts';
import { bridgeKey, type Target } from '../targets/target.ts';
import { bridgeOptions, textFlag } from './flags.ts';
import { usage } from './parse.ts';
import type { ParsedCommand } from './specs.ts';

/** Runs a bridge until it is told to end, or its target goes away. */
export async function run({ flags }: ParsedCommand): Promise<number> {
  restoreEnvironment(process.env);
  const tell = readyTeller(textFlag(flags, 'ready-fd'));
  try {
    const options = bridgeOptions('serve', flags);
    const container = textFlag(flags, 'container');
    const spec = textFlag(flags, 'target') ?? (container === undefined ? undefined : `docker:${container}`);
    if (spec === undefined && options.exec === undefined)
      throw usage('serve', 'it needs --container or --target');
    const target = await resolveTarget(spec, options);
    const daemon = new Daemon({
      target,
      files: files(textFlag(flags, 'pid-file'), target),
      options,
      verbose: flags.verbose === true,
      // Nobody waits for news of a daemon in the foreground, so a person may be looking.
      ...(flags['ready-fd'] === undefined ? { echo } : {}),
    });
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
      process.on(signal, () => daemon.end(`it got ${signal}`));
    }
    await daemon.run((status) => {
      tell({ ready: status });
      void keepYoungGenerationSmall();
    });
    return 0;
  } catch (error) {
    const failure = toBridgeError(error, "can't run the bridge");
    tell({ error: failure.toJSON() });
    throw failure;
  }
}

function files(pidFile: string | undefined, target: Target): BridgeFiles {
  const directory = pidFile === undefined ? stateDirectory() : dirname(resolve(pidFile));
  // Where a person puts a PID file is theirs to choose, a directory of everybody's like /run too.
  if (pidFile === undefined) ensureStateDirectory(directory);
  else if (!existsSync(directory)) throw usage('serve', `there is no directory ${directory} for --pid-file`);
  return pidFile === undefined ? bridgeFiles(directory, bridgeKey(target)) : filesBeside(pidFile);
}

/**
 * Sessions come and go by the thousand and leave nothing: a young generation that grows is only kept, not
 * used. Said now and not to Node at its start, since what it has compiled beforehand of its own modules is
 * only good for the options that V8 has by default.
 */
async function keepYoungGenerationSmall(): Promise<void> {
  const { setFlagsFromString } = await import('node:v8');
  setFlagsFromString('--semi-space-growth-factor=1');
}

function echo(line: string): void {
  process.stderr.write(`gpg-bridge: ${line}\n`);
}

/** Tells whoever started this daemon, once; later news go to the log. */
function readyTeller(fd: string | undefined): (news: object) => void {
  let told = fd === undefined;
  return (news) => {
    if (told) return;
    told = true;
    try {
      writeSync(Number(fd), `${JSON.stringify(news)}\n`);
      closeSync(Number(fd));
    } catch {
      // Whoever started it has gone.
    }
  };
}
