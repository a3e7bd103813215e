import { constants } from 'node:os';
import type { DirectOperations } from '@gpg-bridge/core/remote/direct-operations';
import type { FileFacts, LastWords } from '@gpg-bridge/core/remote/operations';
import { SOCKET_TYPES, type SocketType } from '@gpg-bridge/core/socket-type';

/** The fields of a result. */
export type Answer = readonly (string | Buffer)[];

/** What calls work on. */
export interface CallContext {
  operations: DirectOperations;
  /** Bytes that came for the stdin of the next program. */
  input: Buffer[];
  /** What the clients of each socket are told when the bridge ends. */
  lastWords: Map<SocketType, LastWords>;
  onReplaced(type: SocketType): void;
}

type Operation = (context: CallContext, ...args: string[]) => Promise<Answer>;

const SIGNALS = constants.signals;
const MAX_INPUT_BYTES = 64 * 1_048_576;
/** What a result has of a program's output: its end. */
const STDOUT_BYTES = 262_144;
const STDERR_BYTES = 16_384;

/** The type bits of a mode. */
const TYPE_BITS: Record<FileFacts['kind'], number> = {
  socket: 0o140000,
  link: 0o120000,
  file: 0o100000,
  directory: 0o040000,
  other: 0,
};

/** Every operation by its name in CALL; docs/protocol.md has what goes in and comes out. */
const OPERATIONS: Readonly<Record<string, Operation>> = {
  stat: async ({ operations }, path = '') => factFields(await operations.stat(path)),
  lstat: async ({ operations }, path = '') => factFields(await operations.lstat(path)),
  readlink: async ({ operations }, path = '') => [await operations.readlink(path)],
  list: async ({ operations }, path = '') => operations.list(path),
  read: async ({ operations }, path = '') => [await operations.read(path)],
  which: async ({ operations }, program = '') => [await operations.which(program)],
  run,
  mkdir: async ({ operations }, path = '') => operations.makeDirectory(path).then(() => []),
  chmod: async ({ operations }, path = '', mode = '') => operations.chmod(path, Number(mode)).then(() => []),
  bind,
  release: async ({ operations }, type = '') => operations.release(socketType(type)).then(() => []),
};

/** Carries out a call; rejects with an error that has the system's code. */
export async function carryOut(context: CallContext, fields: readonly Buffer[]): Promise<Answer> {
  const [name = '', ...args] = fields.map(String);
  // Its last argument is bytes, not text.
  if (name === 'ask') return ['ok', ...(await ask(context, args, fields[5]))];
  const operation = Object.hasOwn(OPERATIONS, name) ? OPERATIONS[name] : undefined;
  if (!operation) throw failure('ENOSYS', `no operation ${name}`);
  return ['ok', ...(await operation(context, ...args))];
}

async function run({ operations, input }: CallContext, seconds = '', program = '', ...args: string[]) {
  const bytes = Buffer.concat(input.splice(0));
  if (bytes.length > MAX_INPUT_BYTES) throw failure('ENOBUFS', 'too much input for a program');
  const result = await operations.run({ program, args, input: bytes, timeoutSeconds: Number(seconds) });
  if (result.aborted === 'timeout') throw failure('ETIMEDOUT', 'it did not end in time');
  const status = result.status ?? 128 + (result.signal ? SIGNALS[result.signal]! : 0);
  const stderr = Buffer.from(result.stderr).subarray(-STDERR_BYTES);
  return [String(status), result.stdout.subarray(-STDOUT_BYTES), stderr];
}

async function ask({ operations }: CallContext, args: readonly string[], bytes: Buffer = Buffer.alloc(0)) {
  const [path = '', milliseconds, count, lines] = args;
  const question = {
    bytes,
    count: Number(count),
    lines: Number(lines),
    timeoutMs: Number(milliseconds),
  };
  const reply = await operations.ask(path, question);
  return [reply.reason, reply.bytes];
}

async function bind(
  { operations, lastWords, onReplaced }: CallContext,
  name = '',
  path = '',
  temporaryPath = '',
  expected = '',
  backlog = '',
  greeting = '',
  refusal = '',
) {
  const type = socketType(name);
  lastWords.set(type, { greeting: Buffer.from(greeting), refusal: Buffer.from(refusal) });
  const [dev = '', ino = ''] = expected.split(':');
  await operations.bind({
    type,
    path,
    temporaryPath,
    expected: expected ? { dev, ino } : undefined,
    backlog: Number(backlog),
    onReplaced: () => onReplaced(type),
  });
  return [];
}

function factFields(facts: FileFacts | undefined): string[] {
  if (!facts) throw failure('ENOENT', 'nothing is there');
  const { identity, kind, mode, uid, ageSeconds } = facts;
  return [identity.dev, identity.ino, mode | TYPE_BITS[kind], uid, ageSeconds].map(String);
}

function socketType(name: string): SocketType {
  const type = SOCKET_TYPES.find((known) => known === name);
  if (!type) throw failure('EINVAL', `no socket type ${name}`);
  return type;
}

function failure(code: string, message: string): Error {
  return Object.assign(new Error(message), { code });
}
