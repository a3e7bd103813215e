import { chmodSync, linkSync, lstatSync, renameSync, unlinkSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { basename, dirname, join } from 'node:path';
import { writePipeFile } from './pipe-file.ts';
import { lstatIdentitySync, type SocketIdentity, sameIdentity } from './socket-identity.ts';
import { newPipeName, temporaryName } from './temporary-name.ts';

/** How a socket is served. */
export interface BindOptions {
  backlog: number;
  allowHalfOpen: boolean;
  onConnection(socket: Socket): void;
  onError(error: Error): void;
}

/** A short name leaves few temporary ones, and others may be trying at the same time. */
const BIND_ATTEMPTS = 100;

/** A temporary name that somebody has. */
const TAKEN = new Set(['EADDRINUSE', 'EEXIST']);

/** Hard links to sockets do not exist everywhere: 9p, vfat, some shared folders of virtual machines. */
const NO_LINKS = new Set(['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK', 'EINVAL', 'EACCES']);

/**
 * A listening Unix socket that has mode 0600 before it gets its name. Node binds with mode 0755 and
 * unlinks by name on close, so it is bound under a temporary name, and only that is ever Node's to
 * remove. On Windows it is a pipe, and the file that stands for it.
 */
export class BoundSocket {
  readonly #server: Server;
  readonly #temporaryPath: string;
  readonly identity: SocketIdentity;

  private constructor(
    readonly path: string,
    temporaryPath: string,
    server: Server,
  ) {
    this.#server = server;
    this.#temporaryPath = temporaryPath;
    const identity = lstatIdentitySync(temporaryPath);
    if (!identity) throw new Error(`${temporaryPath} vanished`);
    this.identity = identity;
  }

  /** Listens under a temporary name in the directory of `path`. */
  static async bind(path: string, options: BindOptions): Promise<BoundSocket> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await BoundSocket.bindAs(join(dirname(path), temporaryName(basename(path))), path, options);
      } catch (error) {
        const isTaken = TAKEN.has((error as NodeJS.ErrnoException).code ?? '');
        if (!isTaken || attempt === BIND_ATTEMPTS) throw error;
      }
    }
  }

  /** The same under a given temporary name. */
  static async bindAs(temporaryPath: string, path: string, options: BindOptions): Promise<BoundSocket> {
    const server = createServer({ allowHalfOpen: options.allowHalfOpen }, (socket) =>
      options.onConnection(socket),
    );
    const pipe = process.platform === 'win32' ? newPipeName() : undefined;
    try {
      await new Promise<void>((resolve, reject) => {
        server.once('error', reject);
        server.listen({ path: pipe ?? temporaryPath, backlog: options.backlog }, () => {
          server.off('error', reject);
          resolve();
        });
      });
      if (pipe === undefined) chmodSync(temporaryPath, 0o600);
      else writePipeFile(temporaryPath, pipe);
      // From here on an error is one connection that could not be accepted.
      server.on('error', options.onError);
      return new BoundSocket(path, temporaryPath, server);
    } catch (error) {
      server.close();
      // libuv calls a missing directory one that may not be written to.
      if (!exists(dirname(temporaryPath))) Object.assign(error as Error, { code: 'ENOENT' });
      throw error;
    }
  }

  /** Takes the final name if nobody has it; false if somebody does. */
  placeIfFree(): boolean {
    try {
      linkSync(this.#temporaryPath, this.path);
      unlinkSync(this.#temporaryPath);
      return true;
    } catch (error) {
      const code = (error as NodeJS.ErrnoException).code ?? '';
      if (code === 'EEXIST') return false;
      if (!NO_LINKS.has(code)) throw error;
    }
    if (exists(this.path)) return false;
    renameSync(this.#temporaryPath, this.path);
    return true;
  }

  /** Takes the final name from the file with that identity, without a gap; false if it is not there. */
  replace(identity: SocketIdentity): boolean {
    const there = lstatIdentitySync(this.path);
    if (!there || !sameIdentity(there, identity)) return false;
    renameSync(this.#temporaryPath, this.path);
    return true;
  }

  /** Whether the final name leads here. */
  holdsPlace(): boolean {
    const there = lstatIdentitySync(this.path);
    return there !== undefined && sameIdentity(there, this.identity);
  }

  /** Removes the name if it still leads here; while the server is open its inode can't be given to another file. */
  unlink(): void {
    if (this.holdsPlace()) unlinkSync(this.path);
  }

  /** Removes the name if it still leads here, and stops listening; open connections go on. */
  close(): void {
    this.unlink();
    this.#server.close();
  }

  /** The same, once the clients that had connected before are accepted. */
  async closeEmpty(): Promise<void> {
    this.unlink();
    let accepted = 0;
    this.#server.on('connection', () => {
      accepted++;
    });
    // Node accepts one or many in a turn of its event loop; in two of them at least one.
    for (let before = -1; before !== accepted; ) {
      before = accepted;
      for (let turn = 0; turn < 2; turn++) await new Promise((resolve) => setImmediate(resolve));
    }
    this.#server.close();
  }
}

function exists(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
}
