import { FieldReader } from './key-blob.ts';
import { SESSION_BIND, SSH_AGENT, type SshMessage } from './messages.ts';
import { parseSshsig, type SshsigRequest } from './sshsig.ts';
import { parseUserAuth, type UserAuthRequest } from './userauth.ts';

/** What a client asks of the ssh-agent. */
export interface SshRequest {
  /** `list`, `sign`, `session-bind`, or the name of what is refused. */
  command: string;
  /** The key of a signature, as the client names it. */
  blob?: Buffer | undefined;
  /** What is to be signed. */
  content?: UserAuthRequest | SshsigRequest | undefined;
  /** Why the agent must not be asked. */
  refusal?: string | undefined;
}

/** For the log, by message type. */
const NAMES: Partial<Record<number, string>> = {
  11: 'list',
  13: 'sign',
  27: 'extension',
  1: 'list-v1',
  17: 'add',
  18: 'remove',
  19: 'remove-all',
  20: 'add-smartcard',
  21: 'remove-smartcard',
  22: 'lock',
  23: 'unlock',
  25: 'add-constrained',
  26: 'add-smartcard-constrained',
};

/** None, or RSA with SHA-256 or SHA-512. */
const SIGN_FLAGS: ReadonlySet<number> = new Set([0, 2, 4]);

/** Reads a request. Listing, signing and session-bind can pass; everything else has a refusal. */
export function readRequest(message: SshMessage): SshRequest {
  if (message.type === SSH_AGENT.REQUEST_IDENTITIES) return { command: 'list' };
  if (message.type === SSH_AGENT.SIGN_REQUEST)
    return { command: 'sign', ...readSignRequest(message.contents) };
  if (message.type === SSH_AGENT.EXTENSION && extensionName(message) === SESSION_BIND) {
    return { command: 'session-bind' };
  }
  return { command: NAMES[message.type] ?? 'unknown', refusal: 'a bridge does not pass this request' };
}

function readSignRequest(contents: Buffer): Omit<SshRequest, 'command'> {
  const fields = new FieldReader(contents);
  const [blob, data, flags] = [fields.string(), fields.string(), fields.uint32()];
  if (!blob || !data || flags === undefined || !fields.atEnd)
    return { blob, refusal: 'the request is malformed' };
  if (!SIGN_FLAGS.has(flags)) return { blob, refusal: `the flags ${flags} are not supported` };
  const content = parseSshsig(data) ?? parseUserAuth(data, blob);
  return content
    ? { blob, content }
    : { blob, refusal: 'the data is neither a login nor an SSHSIG signature' };
}

function extensionName(message: SshMessage): string | undefined {
  return new FieldReader(message.contents).string()?.toString('latin1');
}
