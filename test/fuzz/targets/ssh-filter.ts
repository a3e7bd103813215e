import { createHash } from 'node:crypto';
import { SshAgentFilter } from '@gpg-bridge/core/ssh/filter';
import { chosenKeys } from '@gpg-bridge/core/ssh/identities';
import { type FuzzTarget, mayFail, must } from '../engine/target.ts';

const uint32 = (value: number) => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
};
const field = (value: string | Buffer) =>
  Buffer.concat([uint32(Buffer.from(value).length), Buffer.from(value)]);
const message = (type: number, contents = Buffer.alloc(0)) =>
  Buffer.concat([uint32(contents.length + 1), Buffer.of(type), contents]);

const GOOD = Buffer.concat([field('ssh-ed25519'), field('g'.repeat(32))]);
const BAD = Buffer.concat([field('ssh-ed25519'), field('b'.repeat(32))]);
const fingerprint = (blob: Buffer) =>
  `SHA256:${createHash('sha256').update(blob).digest('base64').replace(/=+$/, '')}`;
const LIST = Buffer.concat([uint32(2), field(GOOD), field('good'), field(BAD), field('bad')]);
const LOGIN = (blob: Buffer) =>
  Buffer.concat([
    field('s'.repeat(20)),
    Buffer.of(50),
    ...['u', 'ssh-connection', 'publickey'].map(field),
    Buffer.of(1),
    field('ssh-ed25519'),
    field(blob),
  ]);
const SIGN = (blob: Buffer, data = LOGIN(blob)) =>
  message(13, Buffer.concat([field(blob), field(data), uint32(0)]));
const SSHSIG = Buffer.concat([Buffer.from('SSHSIG'), ...['git', '', 'sha256', 'd'.repeat(32)].map(field)]);
const BIND = message(27, Buffer.concat([field('session-bind@openssh.com'), field('x')]));

/** Which keys were chosen, by the input's first byte. */
const CHOICES = [undefined, [fingerprint(GOOD)], ['good'], ['nobody']] as const;

/** An ssh-agent that reads messages by itself, and refuses to have been sent one that is not allowed. */
class Agent {
  #held = Buffer.alloc(0);
  answers: Buffer[] = [];

  constructor(private readonly isNarrowed: boolean) {}

  read(bytes: Buffer, choice: number): void {
    this.#held = Buffer.concat([this.#held, bytes]);
    while (this.#held.length >= 4 && this.#held.length >= 4 + this.#held.readUInt32BE(0)) {
      const length = 4 + this.#held.readUInt32BE(0);
      this.#message(this.#held.subarray(4, length), choice);
      this.#held = this.#held.subarray(length);
    }
    must(this.#held.length === 0, 'half a message was passed on');
  }

  #message(body: Buffer, choice: number): void {
    const type = body[0];
    if (type === 11) this.answers.push(choice % 7 === 0 ? message(5) : message(12, LIST));
    else if (type === 13) {
      const keys = this.isNarrowed ? [GOOD] : [GOOD, BAD];
      must(
        keys.some((blob) => maySign(blob, body.subarray(1))),
        'a signature that is not allowed was asked for',
      );
      this.answers.push(message(14, field('signature')));
    } else if (type === 27) {
      const name = body.toString('latin1', 5, 5 + body.readUInt32BE(1));
      must(name === 'session-bind@openssh.com', `the extension ${JSON.stringify(name)} was passed on`);
      this.answers.push(message(6));
    } else throw new Error(`a message of type ${type} was passed on`);
  }
}

/** Says by comparing bytes, and without the filter's own readers, whether a request is one for this key. */
function maySign(blob: Buffer, request: Buffer): boolean {
  const head = field(blob);
  if (!request.subarray(0, head.length).equals(head)) return false;
  const flags = request.subarray(-4).toString('hex');
  if (!['00000000', '00000002', '00000004'].includes(flags)) return false;
  const data = request.subarray(head.length + 4, -4);
  if (!request.subarray(head.length, -4).equals(field(data))) return false;
  const text = data.toString('latin1');
  if (text.startsWith('SSHSIG')) return isSshsig(data);
  return text.includes('ssh-connection') && text.includes('publickey') && data.includes(field(blob));
}

/** What is behind the namespace is fixed but for the digest. */
function isSshsig(data: Buffer): boolean {
  return [
    ['sha256', 32],
    ['sha512', 64],
  ].some(([name, length]) => {
    const tail = Buffer.concat([field(''), field(String(name)), uint32(Number(length))]);
    const at = data.length - Number(length) - tail.length;
    return at > 10 && data.subarray(at, at + tail.length).equals(tail) && data.readUInt32BE(6) === at - 10;
  });
}

/** The allowlist between a client and the ssh-agent. */
export const sshFilter: FuzzTarget = {
  name: 'ssh-filter',
  seeds: [
    Buffer.concat([Buffer.of(0, 5), message(11), Buffer.of(255, 30), BIND]),
    Buffer.concat([
      Buffer.of(1, SIGN(GOOD).length),
      SIGN(GOOD),
      Buffer.of(255, 255, SIGN(BAD).length),
      SIGN(BAD),
      Buffer.of(255),
    ]),
    Buffer.concat([
      Buffer.of(2, SIGN(BAD).length),
      SIGN(BAD),
      Buffer.of(255, 5),
      message(11),
      Buffer.of(255),
    ]),
    Buffer.concat([Buffer.of(2, SIGN(GOOD, SSHSIG).length), SIGN(GOOD, SSHSIG), Buffer.of(255, 255, 255)]),
    Buffer.concat([
      Buffer.of(0, 5),
      message(11),
      Buffer.of(255, SIGN(BAD).length),
      SIGN(BAD),
      Buffer.of(255),
    ]),
    Buffer.concat([
      Buffer.of(0, 40),
      message(17, Buffer.from('x')),
      message(19),
      message(25),
      Buffer.of(255),
    ]),
  ],
  words: [
    message(11),
    message(19),
    SIGN(GOOD),
    SIGN(BAD),
    LOGIN(GOOD),
    SSHSIG,
    SIGN(GOOD, SSHSIG),
    BIND,
    field('x@y'),
    GOOD,
    BAD,
    Buffer.of(255),
    uint32(1),
  ],
  run(input) {
    const which = (input[0] ?? 0) % CHOICES.length;
    const keys = CHOICES[which];
    const agent = new Agent(keys !== undefined);
    let asked = 0;
    let answered = 0;
    const filter = new SshAgentFilter({
      ...(keys ? { offers: chosenKeys(keys) } : {}),
      now: () => 0,
      onOperation: () => void answered++,
    });
    const pass = ({ toAgent, toClient }: { toAgent: Buffer[]; toClient: Buffer[] }, choice: number) => {
      for (const bytes of toAgent) agent.read(Buffer.from(bytes), choice);
      for (const bytes of toClient) {
        must(bytes.length === 4 + bytes.readUInt32BE(0), 'the client gets half a message');
        if (keys) must(!bytes.includes(BAD), 'a key that was not chosen is listed');
      }
      asked += toClient.length;
    };
    mayFail(['SSH_PROTOCOL'], () => {
      for (let at = 1; at < input.length; ) {
        const step = input[at]!;
        at += 1;
        if (step === 255) {
          const answer = agent.answers.shift();
          if (answer) pass(filter.fromAgent(answer), step);
          continue;
        }
        const chunk = Buffer.from(input.subarray(at, at + step));
        at += step;
        pass(filter.fromClient(chunk), step);
        chunk.fill(0);
      }
    });
    filter.end();
    must(filter.pending === undefined, 'a request is pending after the end');
    must(answered >= asked, 'an answer was not reported');
  },
};
