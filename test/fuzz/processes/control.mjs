// The control socket of a real daemon.
import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const PROGRAM = fileURLToPath(new URL('../../../packages/cli/dist/gpg-bridge.js', import.meta.url));
const AT_ONCE = 50;
const ANSWER_MS = 30_000;
const MAX_RSS_KIB = 200 * 1_024;
/** Without those that end a daemon. */
const WORDS = [
  'status',
  'check',
  'confirm',
  'holds',
  'ready',
  'idle',
  'handover',
  'Status',
  'statuss',
  '',
  'toString',
];
const ENDING = /^(?:stop|retire)\b/;

/** Any JSON, most of it not what is expected. */
function json(random, depth = 0) {
  switch (random.below(depth > 3 ? 4 : 7)) {
    case 0:
      return random.pick([null, true, 0, -1, 1e308, '', 'local:/x', '\u001b]0;x', 'a'.repeat(500)]);
    case 1:
      return random.bytes(random.below(20)).toString('latin1');
    case 2:
      return random.below(2 ** 31);
    case 3:
      return {};
    case 4:
      return Array.from({ length: random.below(4) }, () => json(random, depth + 1));
    default: {
      const names = [
        'spec',
        'user',
        'env',
        'options',
        'mend',
        'dev',
        'ino',
        'boot',
        'exec',
        '__proto__',
        'PATH',
        'HOME',
      ];
      const entries = Array.from({ length: random.below(4) }, () => [
        random.pick(names),
        json(random, depth + 1),
      ]);
      return Object.fromEntries(entries);
    }
  }
}

/** A request that has no effect outside of the daemon: no command is run for a name that is not `local:`. */
function request(random) {
  if (random.oneIn(4)) return random.bytes(random.below(200));
  const word = random.pick(WORDS);
  const argument =
    word === 'confirm' ? { spec: 'local:/none', env: {}, options: json(random) } : json(random);
  const text = random.oneIn(5)
    ? JSON.stringify(argument).slice(0, random.below(50))
    : JSON.stringify(argument);
  const line = random.oneIn(50) ? `${word} "${'x'.repeat(20_000)}"` : `${word} ${text}`;
  return Buffer.from(`${line}${random.oneIn(10) ? '' : '\n'}`);
}

function say(path, bytes) {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.on('error', () => {}).once('close', resolve);
    socket.once('data', () => socket.destroy()).setTimeout(100, () => socket.destroy());
    socket.write(bytes);
  });
}

function status(path) {
  return new Promise((resolve, reject) => {
    const socket = connect(path);
    let heard = '';
    socket.on('error', reject);
    socket.setTimeout(ANSWER_MS, () => socket.destroy(new Error(`no answer in ${ANSWER_MS / 1_000} s`)));
    socket.on('data', (text) => {
      heard += text;
      if (!heard.endsWith('\n')) return;
      socket.destroy();
      resolve(JSON.parse(heard));
    });
    socket.write('status\n');
  });
}

async function run({ seed, seconds, work, tools }) {
  const random = new tools.Random(seed);
  const [home, target, state] = ['h', 't', 's'].map((name) => join(work, `control-${name}`));
  for (const directory of [home, target, state]) mkdirSync(directory, { mode: 0o700 });
  const { SSH_AUTH_SOCK: _agent, ...inherited } = process.env;
  const env = { ...inherited, HOME: home, GNUPGHOME: home, GPG_BRIDGE_STATE_DIR: state };
  const bridge = (...words) =>
    execFileSync(process.execPath, [PROGRAM, ...words], { env, stdio: 'pipe', timeout: 60_000 });
  let inputs = 0;
  try {
    bridge('up', `local:${target}`, '--no-ssh');
    const control = join(
      state,
      readdirSync(state).find((name) => name.endsWith('.sock')),
    );
    const { pid } = await status(control);
    const end = Date.now() + seconds * 1_000;
    while (Date.now() < end) {
      const requests = Array.from({ length: AT_ONCE }, () => request(random)).filter(
        (bytes) => !ENDING.test(bytes.toString('latin1')),
      );
      inputs += requests.length;
      await Promise.all(requests.map((bytes) => say(control, bytes)));
      const told = await status(control);
      if (told.pid !== pid || told.state === 'ending')
        throw new Error(`the daemon is ${told.state}, pid ${told.pid}`);
      const rss = Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1]);
      if (rss > MAX_RSS_KIB) throw new Error(`the daemon takes ${rss} KiB`);
    }
    return { inputs };
  } catch (error) {
    return { inputs, finding: { error: `${error.message} ${error.stderr ?? ''}` } };
  } finally {
    spawn(process.execPath, [PROGRAM, 'down', '--all', '--force'], { env, stdio: 'ignore' });
    spawn('gpgconf', ['--kill', 'all'], { env, stdio: 'ignore' });
    await new Promise((resolve) => setTimeout(resolve, 2_000));
  }
}

export const CONTROL_TARGET = { name: 'control', run };
