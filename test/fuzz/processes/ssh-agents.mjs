// Sign requests that no client sends, through real bridges to a real ssh-agent and to a gpg-agent that is one.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const PROGRAM = fileURLToPath(new URL('../../../packages/cli/dist/gpg-bridge.js', import.meta.url));
const [FAILURE, SIGNATURE] = [5, 14];
const PER_CONNECTION = 20;
const ANSWER_MS = 30_000;
const HOST_BOUND = 'publickey-hostbound-v00@openssh.com';

const uint32 = (value) => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
};
const field = (value) => Buffer.concat([uint32(Buffer.from(value).length), Buffer.from(value)]);
const message = (type, contents = Buffer.alloc(0)) =>
  Buffer.concat([uint32(contents.length + 1), Buffer.of(type), contents]);

/** Cuts bytes as a pattern says (`s`: a string, a digit: so many bytes); undefined unless it fits exactly. */
function exactly(bytes, pattern) {
  let rest = bytes;
  const parts = [];
  for (const each of pattern) {
    if (each === 's' && rest.length < 4) return undefined;
    const length = each === 's' ? rest.readUInt32BE(0) : Number(each);
    const start = each === 's' ? 4 : 0;
    if (rest.length < start + length) return undefined;
    parts.push(rest.subarray(start, start + length));
    rest = rest.subarray(start + length);
  }
  return rest.length === 0 ? parts : undefined;
}

/** Whether a signature may come of a request: decided from its bytes and the keys that are offered. */
function allows(contents, offered) {
  const [blob, data, flags] = exactly(contents, 'ss4') ?? [];
  if (!blob || !offered.some((each) => each.equals(blob))) return false;
  if (!['00000000', '00000002', '00000004'].includes(flags.toString('hex'))) return false;
  return data.toString('latin1', 0, 6) === 'SSHSIG' ? isSshsig(data.subarray(6)) : isLogin(data, blob);
}

function isSshsig(data) {
  const [namespace, reserved, hash, digest] = exactly(data, 'ssss') ?? [];
  if (!namespace || namespace.length === 0 || reserved.length > 0) return false;
  return [`sha256 32`, `sha512 64`].includes(`${hash.toString('latin1')} ${digest.length}`);
}

function isLogin(data, blob) {
  const parts = exactly(data, 's1sss1ss') ?? exactly(data, 's1sss1sss');
  if (!parts) return false;
  const [session, type, user, service, method, isTrue, algorithm, key, hostKey] = parts;
  if (![20, 32, 48, 64].includes(session.length) || type[0] !== 50 || isTrue[0] !== 1) return false;
  if (user.length === 0 || algorithm.length === 0 || service.toString('latin1') !== 'ssh-connection')
    return false;
  if (method.toString('latin1') !== (hostKey ? HOST_BOUND : 'publickey') || hostKey?.length === 0)
    return false;
  return key.equals(blob) || certifies(key, blob);
}

/** A certificate is the type with a suffix, a nonce, the key's own fields, and more. */
function certifies(certificate, blob) {
  const typeLength = blob.readUInt32BE(0);
  const head = field(`${blob.toString('latin1', 4, 4 + typeLength)}-cert-v01@openssh.com`);
  if (!certificate.subarray(0, head.length).equals(head) || certificate.length < head.length + 4)
    return false;
  const nonceEnd = head.length + 4 + certificate.readUInt32BE(head.length);
  const fields = blob.subarray(4 + typeLength);
  return certificate.subarray(nonceEnd, nonceEnd + fields.length).equals(fields);
}

function certificateShaped(blob, nonce) {
  const typeLength = blob.readUInt32BE(0);
  const type = `${blob.toString('latin1', 4, 4 + typeLength)}-cert-v01@openssh.com`;
  return Buffer.concat([field(type), field(nonce), blob.subarray(4 + typeLength), Buffer.alloc(60)]);
}

/** The same key with zeros in front of its first number. */
function withLeadingZeros(blob, count) {
  const at = 4 + blob.readUInt32BE(0);
  const end = at + 4 + blob.readUInt32BE(at);
  const number = Buffer.concat([Buffer.alloc(count), blob.subarray(at + 4, end)]);
  return Buffer.concat([blob.subarray(0, at), field(number), blob.subarray(end)]);
}

function login(random, key) {
  const isBound = random.oneIn(2);
  const middle = ['ada', 'ssh-connection', isBound ? HOST_BOUND : 'publickey'].map(field);
  const parts = [
    field(Buffer.alloc(32, 1)),
    Buffer.of(50),
    ...middle,
    Buffer.of(1),
    field('rsa-sha2-256'),
    field(key),
  ];
  return Buffer.concat([...parts, ...(isBound ? [field('host key')] : [])]);
}

function sshsig(random) {
  const [hash, length] = random.pick([
    ['sha256', 32],
    ['sha512', 64],
  ]);
  return Buffer.concat([Buffer.from('SSHSIG'), ...['git', '', hash, Buffer.alloc(length, 2)].map(field)]);
}

/** What is hostile about a request, each in one of two or more parts. */
function request(random, { offered, others }, mutate) {
  const mutated = (bytes) => mutate(bytes, random.pick(offered), random, [uint32(0), field('')], 2_000);
  const key = random.pick(offered);
  const other = random.pick(others);
  const blob = random.pick([
    () => key,
    () => key,
    () => key,
    () => other,
    () => certificateShaped(key, other),
    () => certificateShaped(other, key),
    () => withLeadingZeros(key, 1 + random.below(3)),
    () => mutated(key),
  ])();
  const data = random.pick([
    () => login(random, blob),
    () => login(random, blob),
    () => sshsig(random),
    () => login(random, other),
    () => login(random, certificateShaped(blob.length > 8 ? blob : key, 'nonce')),
    () => random.bytes(random.pick([20, 32, 48, 64])),
    () => login(random, blob).subarray(0, random.below(150)),
    () =>
      Buffer.concat([random.pick([login(random, blob), sshsig(random)]), random.bytes(1 + random.below(8))]),
    () => sshsig(random).subarray(0, random.below(80)),
    () => mutated(random.pick([login(random, blob), sshsig(random)])),
  ])();
  const flags = random.oneIn(4) ? random.pick([1, 3, 6, 8, 2 ** 31]) : random.pick([0, 2, 4]);
  const contents = Buffer.concat([field(blob), field(data), uint32(flags)]);
  return random.oneIn(8) ? mutated(contents) : contents;
}

/** Sends messages one after another and resolves to the types of their answers. */
async function ask(path, messages) {
  const socket = connect(path);
  let heard = Buffer.alloc(0);
  const types = [];
  socket.setTimeout(ANSWER_MS, () => socket.destroy(new Error('no answer')));
  await once(socket, 'connect');
  for (const each of messages) {
    socket.write(each);
    while (heard.length < 5 || heard.length < 4 + heard.readUInt32BE(0)) {
      heard = Buffer.concat([heard, (await once(socket, 'data'))[0]]);
    }
    types.push(heard[4]);
    heard = heard.subarray(4 + heard.readUInt32BE(0));
  }
  socket.destroy();
  return types;
}

/** An ssh-agent with keys of three kinds, and one that it does not have. */
async function opensshAgent(dir, env) {
  const socket = join(dir, 'agent');
  const agent = spawn('ssh-agent', ['-D', '-a', socket], { env, stdio: ['ignore', 'pipe', 'ignore'] });
  await once(agent.stdout, 'data');
  const made = ['ed25519', 'rsa', 'ecdsa', 'ed25519'].map((type, index) => {
    const file = join(dir, `key${index}`);
    execFileSync('ssh-keygen', ['-q', '-t', type, '-N', '', '-f', file]);
    return file;
  });
  const added = { env: { ...env, SSH_AUTH_SOCK: socket }, stdio: 'pipe' };
  execFileSync('ssh-add', ['-q', ...made.slice(0, 3)], added);
  const blobs = made.map((file) =>
    Buffer.from(readFileSync(`${file}.pub`, 'latin1').split(' ')[1], 'base64'),
  );
  return { agent, socket, offered: blobs.slice(0, 3), others: blobs.slice(3) };
}

/** Keys of gpg-agent: two that are granted and listed, one that is only listed, one that it only has. */
function gpgAgent(home, env) {
  const gpg = (...args) =>
    execFileSync('gpg', ['--batch', '--pinentry-mode', 'loopback', '--passphrase', '', ...args], {
      env,
      stdio: 'pipe',
    }).toString();
  const keys = ['one ed25519', 'two rsa2048', 'three ed25519', 'four ed25519'].map((words) => {
    const [name, algo] = words.split(' ');
    gpg('--quick-gen-key', name, algo, 'sign,auth', 'never');
    const listing = gpg('--with-colons', '--with-keygrip', '--list-keys', `=${name}`);
    const blob = Buffer.from(gpg('--export-ssh-key', `=${name}`).split(' ')[1], 'base64');
    return { blob, grip: /^grp:+([0-9A-F]{40}):/m.exec(listing)[1] };
  });
  const grips = keys.map(({ grip }) => grip);
  writeFileSync(join(home, 'sshcontrol'), `${grips.slice(0, 3).join('\n')}\n`);
  const blobs = keys.map(({ blob }) => blob);
  const options = ['--ssh-from-gpg', `--gpg-key=${grips[0]}`, `--gpg-key=${grips[1]}`];
  return { options, offered: blobs.slice(0, 2), others: blobs.slice(2) };
}

async function run({ seed, seconds, work, tools }) {
  const random = new tools.Random(seed);
  const dirs = Object.fromEntries(
    ['home', 'openssh', 'gpg', 'state'].map((name) => [name, join(work, `ssh-${name}`)]),
  );
  for (const directory of Object.values(dirs)) mkdirSync(directory, { mode: 0o700 });
  const { SSH_AUTH_SOCK: _agent, ...inherited } = process.env;
  const env = { ...inherited, HOME: dirs.home, GNUPGHOME: dirs.home, GPG_BRIDGE_STATE_DIR: dirs.state };
  const bridge = (words, variables = {}) =>
    execFileSync(process.execPath, [PROGRAM, ...words], {
      env: { ...env, ...variables },
      stdio: 'pipe',
      timeout: 60_000,
    });
  let inputs = 0;
  let signatures = 0;
  let openssh;
  try {
    openssh = await opensshAgent(dirs.home, env);
    const gpg = gpgAgent(dirs.home, env);
    bridge(['up', `local:${dirs.openssh}`, '--no-gpg'], { SSH_AUTH_SOCK: openssh.socket });
    bridge(['up', `local:${dirs.gpg}`, ...gpg.options]);
    const agents = [
      { ...openssh, path: join(dirs.openssh, 'agent.sock') },
      { ...gpg, path: join(dirs.gpg, 'agent.sock') },
    ];
    for (const end = Date.now() + seconds * 1_000; Date.now() < end; ) {
      for (const agent of agents) {
        const requests = Array.from({ length: PER_CONNECTION }, () => request(random, agent, tools.mutate));
        // A plain login with each key shows that the bridge is not just refusing everything.
        const plain = agent.offered.map((key) =>
          // gpg-agent takes RSA's flags for no other key.
          Buffer.concat([field(key), field(login(random, key)), uint32(key.includes('ssh-rsa') ? 2 : 0)]),
        );
        const sent = [...requests, ...plain];
        const first = random.oneIn(2) ? [message(11)] : [];
        const types = await ask(agent.path, [...first, ...sent.map((contents) => message(13, contents))]);
        inputs += sent.length;
        for (const [index, type] of types.slice(first.length).entries()) {
          const contents = sent[index];
          if (type !== FAILURE && type !== SIGNATURE) throw new Error(`an answer of type ${type}`);
          if (type === SIGNATURE && !allows(contents, agent.offered))
            throw new Error(`a signature for ${contents.toString('hex')}`);
          if (type === FAILURE && index >= requests.length)
            throw new Error(`no signature for the login ${contents.toString('hex')}`);
          if (type === SIGNATURE) signatures += 1;
        }
      }
    }
    if (signatures === 0) throw new Error('nothing was signed at all');
    return { inputs };
  } catch (error) {
    return { inputs, finding: { error: `${error.message} ${error.stderr ?? ''}` } };
  } finally {
    const ended = [
      spawn(process.execPath, [PROGRAM, 'down', '--all', '--force'], { env, stdio: 'ignore' }),
      spawn('gpgconf', ['--kill', 'all'], { env, stdio: 'ignore' }),
    ].map((child) => once(child, 'exit'));
    await Promise.all(ended);
    openssh?.agent.kill();
  }
}

export const SSH_AGENTS_TARGET = { name: 'ssh-agents', run };
