import type { SocketIdentity } from '../fs/socket-identity.ts';
import type { ProgramResult } from '../process/run-program.ts';
import type { SocketType } from '../socket-type.ts';
import { printable } from '../text/escape.ts';
import type {
  BindRequest,
  FileFacts,
  Question,
  Reply,
  RunRequest,
  TargetFacts,
  TargetOperations,
} from './operations.ts';

/** What carries calls to a server in a target. */
export interface OperationCaller {
  /** Resolves to the fields of the result. */
  call(fields: readonly (string | Buffer)[]): Promise<Buffer[]>;
  /** Sends bytes for the stdin of the program that the next call runs. */
  sendInput(bytes: Buffer): Promise<void>;
  on(event: 'changed', listener: (socketType: string) => void): unknown;
}

const RUN_TIMEOUT_SECONDS = 30;

/** The type bits of a mode, as Linux, macOS and the BSDs have them. */
const FILE_TYPE = 0o170000;
const KINDS: ReadonlyMap<number, FileFacts['kind']> = new Map([
  [0o140000, 'socket'],
  [0o120000, 'link'],
  [0o100000, 'file'],
  [0o040000, 'directory'],
]);

/** The operations of a target, carried out by a server there. */
export class WireOperations implements TargetOperations {
  readonly #caller: OperationCaller;
  readonly #onReplaced = new Map<string, () => void>();
  /** Input belongs to the next program, so two that need some are not called at once. */
  #inputSent: Promise<unknown> = Promise.resolve();

  constructor(
    caller: OperationCaller,
    readonly facts: TargetFacts,
  ) {
    this.#caller = caller;
    caller.on('changed', (type) => this.#onReplaced.get(type)?.());
  }

  stat(path: string): Promise<FileFacts | undefined> {
    return this.#facts('stat', path);
  }

  lstat(path: string): Promise<FileFacts | undefined> {
    return this.#facts('lstat', path);
  }

  async readlink(path: string): Promise<string> {
    return text((await this.#call('readlink', path))[0]);
  }

  async list(path: string): Promise<string[]> {
    return (await this.#call('list', path)).map(text);
  }

  async read(path: string): Promise<Buffer> {
    return (await this.#call('read', path))[0] ?? Buffer.alloc(0);
  }

  async which(program: string): Promise<string> {
    return text((await this.#call('which', program))[0]);
  }

  async run({ program, args, input, timeoutSeconds }: RunRequest): Promise<ProgramResult> {
    const call = () => this.#call('run', String(timeoutSeconds ?? RUN_TIMEOUT_SECONDS), program, ...args);
    let result: Promise<Buffer[]>;
    if (input?.length) {
      const sent = this.#inputSent.then(() => this.#caller.sendInput(input));
      const called = sent.then(call);
      this.#inputSent = sent.catch(() => {});
      result = called;
    } else {
      // Behind the input of another program, which it would else be given.
      result = this.#inputSent.then(call);
    }
    try {
      const [status, stdout, stderr] = await result;
      const number = Number(text(status));
      return {
        status: Number.isInteger(number) ? number : undefined,
        signal: undefined,
        stdout: stdout ?? Buffer.alloc(0),
        stderr: text(stderr),
      };
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ETIMEDOUT') throw error;
      return {
        status: undefined,
        signal: 'SIGKILL',
        stdout: Buffer.alloc(0),
        stderr: '',
        aborted: 'timeout',
      };
    }
  }

  async makeDirectory(path: string): Promise<void> {
    await this.#call('mkdir', path);
  }

  async chmod(path: string, mode: number): Promise<void> {
    await this.#call('chmod', path, String(mode));
  }

  async ask(path: string, { timeoutMs, count, lines, bytes }: Question): Promise<Reply> {
    const [reason, received] = await this.#call(
      'ask',
      path,
      String(timeoutMs),
      String(count),
      String(lines),
      bytes,
    );
    const known = (['enough', 'closed'] as const).find((word) => word === text(reason));
    return { reason: known ?? 'timeout', bytes: received ?? Buffer.alloc(0) };
  }

  async bind(request: BindRequest): Promise<void> {
    const { type, path, temporaryPath, expected, backlog, lastWords, onReplaced } = request;
    this.#onReplaced.set(type, onReplaced); // before: CHANGED may come right behind the result
    await this.#call(
      'bind',
      type,
      path,
      temporaryPath,
      identityField(expected),
      String(backlog),
      lastWords?.greeting ?? '',
      lastWords?.refusal ?? '',
    );
  }

  async release(type: SocketType): Promise<void> {
    this.#onReplaced.delete(type);
    await this.#call('release', type);
  }

  async #facts(operation: 'stat' | 'lstat', path: string): Promise<FileFacts | undefined> {
    try {
      const [dev = '', ino = '', mode, uid, age] = (await this.#call(operation, path)).map(text);
      const bits = Number(mode);
      return {
        identity: { dev, ino },
        kind: KINDS.get(bits & FILE_TYPE) ?? 'other',
        mode: bits & 0o7777,
        uid: Number(uid),
        ageSeconds: Number(age),
      };
    } catch (error) {
      if (error instanceof OperationError) return undefined;
      throw error;
    }
  }

  async #call(...fields: (string | Buffer)[]): Promise<Buffer[]> {
    const [outcome, ...values] = await this.#caller.call(fields);
    if (text(outcome) === 'ok') return values;
    throw new OperationError(text(outcome), printable(text(values[0]) || text(outcome)));
  }
}

/** What the target's system said to an operation. */
class OperationError extends Error {
  constructor(
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

function text(field: Buffer | undefined): string {
  return field?.toString() ?? '';
}

function identityField(identity: SocketIdentity | undefined): string {
  return identity ? `${identity.dev}:${identity.ino}` : '';
}
