import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:net';

/** SSH's wire format, written apart from the product's own so that a mistake in one shows in the other. */
export function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

export function field(value: Buffer | string): Buffer {
  const bytes = Buffer.from(value as string);
  return Buffer.concat([uint32(bytes.length), bytes]);
}

export function agentMessage(type: number, ...parts: Buffer[]): Buffer {
  const contents = Buffer.concat(parts);
  return Buffer.concat([uint32(contents.length + 1), Buffer.of(type), contents]);
}

/** What a client has signed to log in; every part can be another one. */
export function userAuthData(
  key: Buffer,
  {
    sessionId = Buffer.alloc(32, 7),
    type = 50,
    user = 'ada',
    service = 'ssh-connection',
    method = 'publickey',
    hasSignature = 1,
    algorithm = 'ssh-ed25519',
    behind = Buffer.alloc(0),
  }: {
    sessionId?: Buffer;
    type?: number;
    user?: string;
    service?: string;
    method?: string;
    hasSignature?: number;
    algorithm?: string;
    behind?: Buffer;
  } = {},
): Buffer {
  return Buffer.concat([
    field(sessionId),
    Buffer.of(type),
    field(user),
    field(service),
    field(method),
    Buffer.of(hasSignature),
    field(algorithm),
    field(key),
    behind,
  ]);
}

/** What `ssh-keygen -Y sign` has signed. */
export function sshsigData({
  namespace = 'file',
  reserved = '',
  hash = 'sha512',
  digest = createHash('sha512').update('text').digest(),
  behind = Buffer.alloc(0),
}: {
  namespace?: string;
  reserved?: string;
  hash?: string;
  digest?: Buffer;
  behind?: Buffer;
} = {}): Buffer {
  return Buffer.concat([
    Buffer.from('SSHSIG'),
    field(namespace),
    field(reserved),
    field(hash),
    field(digest),
    behind,
  ]);
}

export function signRequest(blob: Buffer, data: Buffer, flags = 0): Buffer {
  return agentMessage(13, field(blob), field(data), uint32(flags));
}

/** An Ed25519 key in a blob that is shaped like a certificate, without anybody's signature. */
export function certificateShaped(key: Buffer, nonce: Buffer | string = 'nonce'): Buffer {
  return Buffer.concat([
    field('ssh-ed25519-cert-v01@openssh.com'),
    field(nonce),
    key.subarray(4 + 'ssh-ed25519'.length),
    Buffer.alloc(8),
    uint32(1),
    ...['id', '', '', '', '', '', ''].map(field),
  ]);
}

/** An RSA key with a zero in front of its exponent: the same numbers in other bytes. */
export function withLeadingZero(rsa: Buffer): Buffer {
  const exponentAt = 4 + 'ssh-rsa'.length;
  const length = rsa.readUInt32BE(exponentAt);
  const exponent = rsa.subarray(exponentAt + 4, exponentAt + 4 + length);
  return Buffer.concat([
    field('ssh-rsa'),
    field(Buffer.concat([Buffer.of(0), exponent])),
    rsa.subarray(exponentAt + 4 + length),
  ]);
}

/** A connection to an ssh-agent's socket, which is asked one thing after the other and answers with types. */
export async function openSshClient(socketPath: string) {
  const socket = connect(socketPath);
  await once(socket, 'connect');
  let heard = Buffer.alloc(0);
  return {
    async ask(message: Buffer): Promise<number> {
      socket.write(message);
      while (heard.length < 5 || heard.length < 4 + heard.readUInt32BE(0)) {
        const [bytes] = (await once(socket, 'data')) as [Buffer];
        heard = Buffer.concat([heard, bytes]);
      }
      const type = heard[4]!;
      heard = heard.subarray(4 + heard.readUInt32BE(0));
      return type;
    },
    close: () => void socket.destroy(),
  };
}

/** Sends messages to an ssh-agent's socket and returns the types of its answers. */
export async function askAll(socketPath: string, messages: readonly Buffer[]): Promise<number[]> {
  const client = await openSshClient(socketPath);
  const types: number[] = [];
  try {
    for (const message of messages) types.push(await client.ask(message));
    return types;
  } finally {
    client.close();
  }
}
