// A host's agent that can be held in any phase: it stands before a gpg-agent, and passes everything on until it
// is told `hold PHASE` for its next client. It says `held` when that is reached, and goes on at `release`.
import { unlinkSync } from 'node:fs';
import net from 'node:net';
import { createInterface } from 'node:readline';

const [path, agentPath] = process.argv.slice(2);
let nextPhase = '';
let release = () => {};

const say = (word) => process.stdout.write(`${word}\n`);

/** Says that the phase is reached; resolves when it may go on. */
function held() {
  return new Promise((resolve) => {
    release = resolve;
    say('held');
  });
}

/** Passes on what is said once it is allowed; `gate` is asked about every chunk, and may send a part itself. */
function carry(from, to, gate) {
  let before = Promise.resolve();
  from.on('data', (chunk) => {
    before = before.then(async () => to.write((await gate(chunk)) ?? chunk));
  });
  from.once('end', () => void before.then(() => to.end()));
  from.once('close', () => void before.then(() => to.destroy()));
  from.on('error', () => {});
}

async function serve(client) {
  const phase = nextPhase;
  nextPhase = '';
  client.on('error', () => {});
  if (phase === 'connecting') await held();
  const agent = net.connect({ path: agentPath, allowHalfOpen: true });
  let isGreeted = false;
  let isSigning = false;

  carry(client, agent, async (chunk) => {
    const text = chunk.toString('latin1');
    if (phase === 'command' && text.includes('PKSIGN')) await held();
    if (phase === 'closing' && text.includes('BYE')) await held();
    isSigning ||= text.includes('PKSIGN');
  });
  carry(agent, client, async (chunk) => {
    const text = chunk.toString('latin1');
    const isGreeting = !isGreeted;
    isGreeted = true;
    const half = chunk.length >> 1;
    if ((isGreeting && phase === 'greeting') || (phase === 'response' && isSigning && /^D /m.test(text))) {
      client.write(chunk.subarray(0, half));
      await held();
      return chunk.subarray(half);
    }
    if (isGreeting && phase === 'idle') setImmediate(() => void held());
    if (phase === 'inquiry' && text.includes('INQUIRE')) setImmediate(() => void held());
    return chunk;
  });
}

try {
  unlinkSync(path); // of one that was killed
} catch {}
net
  .createServer({ allowHalfOpen: true }, (client) => void serve(client))
  .listen(path, () => say('listening'));
createInterface(process.stdin)
  .on('line', (line) => {
    const [word, phase] = line.split(' ');
    if (word === 'release') release();
    else {
      nextPhase = phase;
      say('ready');
    }
  })
  .on('close', () => process.exit());
