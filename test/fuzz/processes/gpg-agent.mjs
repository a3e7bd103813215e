// A real gpg-agent behind a real bridge, with a client in the target that sends what it likes. The agent logs every line
// that reaches it, and each must be one that GnuPG's own programs send. From outside it is watched that the agent
// neither computes nor loses or keeps descriptors, and that a client of its main socket is served undisturbed.
import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const PROGRAM = fileURLToPath(new URL('../../../packages/cli/dist/gpg-bridge.js', import.meta.url));
const AT_ONCE = 16;
const ANSWER_MS = 20_000;
const TICKS_A_SECOND = 100;
/** Processor time of the agent for a round, in which it computes some signatures. */
const MOST_TICKS = 3 * TICKS_A_SECOND;
/** The bridge's own limit of connections, and what an agent has open anyway. */
const MOST_DESCRIPTORS = 100;

/** Written down from GnuPG's manual, apart from the code under test. */
const PASSES = [
  /^(?:RESET|BYE|NOP|PKSIGN|END|CAN)$/i,
  /^HELP(?: [A-Z_]+)?$/i,
  /^OPTION agent-awareness=[\d.]+$/i,
  /^GETINFO (?:version|restricted|pid|s2k_count|cmd_has_option \w+ [\w-]+)$/i,
  /^(?:HAVEKEY|KEYINFO|READKEY)(?: --[a-z-]+(?:=\w+)?| --)*(?: [0-9A-F]{40})*$/i,
  /^(?:SIGKEY|SETKEY|SETKEY --another|ISTRUSTED) [0-9A-F]{40}$/i,
  /^SETKEYDESC [^\s\0]+$/i,
  /^SETHASH (?:\d+|--hash=\w+) [0-9A-F]{40,128}$/i,
  /^PKDECRYPT(?: --kem=(?:PGP|PQC-PGP))?$/i,
  /^SCD (?:SERIALNO|GETATTR KEY-FPR|KEYINFO --list(?:=\w+)?|GETINFO version)$/i,
  /^D (?:[^%]|%[0-9A-F]{2})*$/i,
  /^#?$/,
];

const HASH = '00'.repeat(32);
const words = (grip) => [
  'RESET',
  'NOP',
  'GETINFO version',
  `SIGKEY ${grip}`,
  `SETKEY ${grip}`,
  `SETKEY --another ${grip}`,
  `SETHASH 8 ${HASH}`,
  'SETHASH --inquire',
  'PKSIGN',
  'PKDECRYPT',
  'PKDECRYPT',
  `HAVEKEY ${grip}`,
  'HAVEKEY --list',
  `KEYINFO ${grip}`,
  'OPTION agent-awareness=2.1.0',
  'OPTION ttyname=/dev/null',
  'INPUT FD=0',
  'INPUT FD=9',
  'OUTPUT FD=7',
  'INPUT',
  'OUTPUT',
  'MESSAGE FD=3',
  'KEYWRAP_KEY --export',
  `EXPORT_KEY ${grip}`,
  'GENKEY',
  'KILLAGENT',
  'SCD INPUT FD=4',
  'SCD SERIALNO',
  'END',
  'CAN',
  'end',
  'END ',
  'D',
  'D ',
  'D %',
  'D a%4',
  'D a%41',
  'D %zz',
  'D (7:enc-val(3:rsa(1:a1:1)))',
  `D ${'x'.repeat(995)}`,
  'HELP',
  'BYE',
  '',
  '#',
  `# ${'y'.repeat(998)}`,
];

/** What a client sends whose decryption gets as far as the data. */
const decryption = (grip) => ['RESET', `SETKEY ${grip}`, 'PKDECRYPT'];
/** Only the main socket says this: a client that hears it has got another connection's answer. */
const NOT_FOR_TARGETS = /^S KEYINFO /m;

const JOINTS = ['\n', '\n', '\n', '\n', '\r\n', '\r', '\0\n', '\t\n', ' \n', '\n\n'];

/** What one client sends: lines of a list, changed now and then, with line ends of every kind. */
function conversation(random, list, grip) {
  let text = random.oneIn(3) ? `${decryption(grip).join('\n')}\n` : '';
  for (let left = 1 + random.below(14); left > 0; left--) {
    let line = random.pick(list);
    if (random.oneIn(6)) line = line.toLowerCase();
    if (random.oneIn(8)) line = `${random.pick([' ', '\t', '\0', '#', 'x', 'NOP '])}${line}`;
    if (random.oneIn(8)) {
      const at = random.below(line.length + 1);
      line = line.slice(0, at) + random.bytes(1 + random.below(3)).toString('latin1') + line.slice(at);
    }
    if (random.oneIn(40)) line = line.padEnd(998 + random.below(8), 'z');
    text += line + random.pick(JOINTS);
  }
  return Buffer.from(text, 'latin1');
}

/** Sends it in one or several pieces; resolves to all that was heard when nothing more comes. */
function say(path, bytes, cut) {
  return new Promise((resolve) => {
    const socket = connect(path);
    let heard = '';
    socket.on('error', () => {}).once('close', () => resolve(heard));
    socket.setTimeout(150, () => socket.destroy());
    socket.setEncoding('latin1').on('data', (text) => {
      heard += text;
    });
    socket.write(bytes.subarray(0, cut));
    setImmediate(() => socket.write(bytes.subarray(cut)));
  });
}

/** A client of the host's own: asks on one connection to the main socket, round after round. */
class HostClient {
  #heard = '';
  #wake = () => {};

  constructor(path) {
    this.socket = connect(path);
    this.socket.on('error', (error) => this.#wake(error));
    this.socket.on('close', () => this.#wake(new Error('a connection to the main socket was closed')));
    this.socket.on('data', (bytes) => {
      this.#heard += bytes;
      this.#wake();
    });
  }

  async ask(line, expected) {
    this.socket.write(`${line}\n`);
    await this.hears(expected, line);
  }

  /** Waits for a whole answer, or the greeting. */
  async hears(expected, line = 'a new connection') {
    const end = Date.now() + ANSWER_MS;
    while (!/^(?:OK|ERR)\b.*\n$/m.test(this.#heard.split('\n').slice(-2).join('\n'))) {
      await new Promise((resolve, reject) => {
        const timer = setTimeout(
          () => reject(new Error(`the agent does not answer ${line}`)),
          end - Date.now(),
        );
        this.#wake = (error) => {
          clearTimeout(timer);
          error ? reject(error) : resolve();
        };
      });
    }
    const heard = this.#heard;
    this.#heard = '';
    if (!expected.test(heard)) throw new Error(`the main socket was told ${JSON.stringify(heard)}`);
  }
}

const ticksOf = (pid) => {
  const fields = readFileSync(`/proc/${pid}/stat`, 'latin1').replace(/.*\) /s, '').split(' ');
  return Number(fields[11]) + Number(fields[12]);
};

/** The lines that reached the agent, out of its log from a place on; those of the host's own client are told apart. */
function unlisted(log, from, own) {
  const text = readFileSync(log, 'latin1').slice(from);
  const lines = [...text.matchAll(/^.*DBG: chan_(\d+) <- (.*)$/gm)];
  const bad = lines.find(([, channel, line]) => {
    if (channel === own || /^\[(?: |eof|error)/.test(line)) return false;
    const plain = line.replace(/[ \t]+/g, ' ').replace(/ $/, '');
    return !PASSES.some((pattern) => pattern.test(plain) || pattern.test(line));
  });
  return { end: from + text.length, bad: bad?.[2] };
}

async function run({ seed, seconds, work, tools }) {
  const random = new tools.Random(seed);
  const [home, target, state] = ['ah', 'at', 'as'].map((name) => join(work, name));
  for (const directory of [home, target, state]) mkdirSync(directory, { mode: 0o700 });
  const log = join(home, 'log');
  writeFileSync(join(home, 'gpg-agent.conf'), `log-file ${log}\ndebug ipc\n`);
  const { SSH_AUTH_SOCK: _agent, ...inherited } = process.env;
  const env = { ...inherited, HOME: home, GNUPGHOME: home, GPG_BRIDGE_STATE_DIR: state, LC_ALL: 'C' };
  const runIn = (program, ...args) =>
    execFileSync(program, args, { env, stdio: 'pipe', timeout: 60_000 }).toString('latin1');
  let inputs = 0;
  let host;
  try {
    runIn(
      'gpg',
      '--batch',
      '--passphrase',
      '',
      '--quick-gen-key',
      'Fuzz <f@example.org>',
      'rsa2048',
      'sign,cert,encr',
      'never',
    );
    const grip = /^grp:+([0-9A-F]{40}):/m.exec(runIn('gpg', '--with-colons', '--with-keygrip', '-k'))[1];
    const pid = Number(/^D (\d+)$/m.exec(runIn('gpg-connect-agent', 'GETINFO pid', '/bye'))[1]);
    runIn(process.execPath, PROGRAM, 'up', `local:${target}`, '--no-ssh');
    host = new HostClient(runIn('gpgconf', '--list-dirs', 'agent-socket').trim());
    await host.hears(/^OK .*\n$/);
    await host.ask('GETINFO pid', new RegExp(`^D ${pid}\\nOK\\n$`));
    const before = readFileSync(log, 'latin1');
    const own = [...before.matchAll(/DBG: chan_(\d+) <- GETINFO pid$/gm)].at(-1)?.[1];
    let from = before.length;
    const list = words(grip);
    const socket = join(target, 'S.gpg-agent');
    const end = Date.now() + seconds * 1_000;
    while (Date.now() < end) {
      const ticks = ticksOf(pid);
      const clients = Array.from({ length: AT_ONCE }, () => conversation(random, list, grip));
      inputs += clients.length;
      const heard = Promise.all(clients.map((bytes) => say(socket, bytes, random.below(bytes.length + 1))));
      await host.ask('KEYINFO --list', NOT_FOR_TARGETS);
      const leak = (await heard).find((text) => NOT_FOR_TARGETS.test(text));
      if (leak) throw new Error(`a client of the bridge heard ${JSON.stringify(leak)}`);
      await host.ask('GETINFO pid', new RegExp(`(?:^|\\n)D ${pid}\\nOK\\n$`));
      const seen = unlisted(log, from, own);
      from = seen.end;
      if (seen.bad !== undefined) throw new Error(`the agent was given ${JSON.stringify(seen.bad)}`);
      const spent = ticksOf(pid) - ticks;
      if (spent > MOST_TICKS) throw new Error(`the agent computed for ${spent / TICKS_A_SECOND} s`);
      const descriptors = readdirSync(`/proc/${pid}/fd`).length;
      if (descriptors > MOST_DESCRIPTORS) throw new Error(`the agent has ${descriptors} descriptors`);
    }
    return { inputs };
  } catch (error) {
    return { inputs, finding: { error: `${error.message} ${error.stderr ?? ''}` } };
  } finally {
    host?.socket.destroy();
    spawn(process.execPath, [PROGRAM, 'down', '--all', '--force'], { env, stdio: 'ignore' });
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    try {
      runIn('pkill', '-9', '-f', `gpg-agent --homedir ${home}`); // one that hangs takes no other signal
    } catch {} // it had ended
  }
}

export const GPG_AGENT_TARGET = { name: 'gpg-agent', run };
