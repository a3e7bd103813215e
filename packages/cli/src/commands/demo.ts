import { BridgeError } from '@gpg-bridge/core/errors';
import { type Narrator, runDemo } from '../demo/demo.ts';
import { COUNTED } from '../demo/round-trips.ts';
import { Sandbox } from '../demo/sandbox.ts';
import { styles } from '../terminal/style.ts';
import { signalStatus } from './signals.ts';

/** Runs the demo; it cleans up also when it is interrupted half-way. */
export async function run(): Promise<number> {
  if (process.platform === 'win32') throw notOnWindows();
  const interruption = new AbortController();
  let status = 0;
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, () => {
      status = signalStatus(signal);
      interruption.abort(interrupted());
    });
  }
  const sandbox = await Sandbox.create(interruption.signal);
  const stopped = new Promise<never>((_, reject) => {
    interruption.signal.addEventListener('abort', () => reject(interruption.signal.reason));
  });
  stopped.catch(() => {});
  const demo = runDemo(sandbox, narrator());
  try {
    await Promise.race([demo, stopped]);
    const { green } = styles(process.stdout);
    process.stdout.write(`\n${green('✓')} Both commits were signed by a key that never left its home.\n`);
    process.stdout.write('  Everything the demo made is gone again. Next: gpg-bridge up NAME\n');
    return 0;
  } catch (error) {
    if (status === 0) throw error;
    process.stderr.write('\ngpg-bridge: interrupted, cleaning up\n');
    await demo.catch(() => {}); // its own clean-up: proxies stopped, sockets removed
    return status;
  } finally {
    await sandbox.remove();
  }
}

function narrator(): Narrator {
  const { bold, dim } = styles(process.stdout);
  let steps = 0;
  const say = (line: string) => process.stdout.write(`${line}\n`);
  return {
    step: (text) => say(`${steps === 0 ? '' : '\n'}${bold(`${++steps}. ${text}`)}`),
    fact: (text) => say(`   ${text}`),
    table: (rows) => {
      const width = Math.max(...rows.map(([what]) => what.length));
      say(dim(`   time of each hop (median of ${COUNTED} round trips):`));
      for (const [what, time] of rows) say(`     ${what.padEnd(width)}  ${time.padStart(8)}`);
    },
  };
}

function notOnWindows(): BridgeError {
  return new BridgeError('DEMO_FAILED', {
    what: "the demo can't be run",
    why: 'its target is on this machine and needs Unix sockets, which Windows has not got',
    fix: 'Name a container: `gpg-bridge up NAME`.',
  });
}

function interrupted(): BridgeError {
  return new BridgeError('DEMO_FAILED', {
    what: 'the demo was interrupted',
    why: 'a signal came',
    fix: 'Run it again.',
  });
}
