import { existsSync, rmdirSync } from 'node:fs';
import type { Socket } from 'node:net';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { type BridgeError, toBridgeError } from '@gpg-bridge/core/errors';
import { killAgent, listDir } from '@gpg-bridge/core/gnupg/gpgconf';
import { findProgram } from '@gpg-bridge/core/gnupg/programs';
import type { LogLevel } from '@gpg-bridge/core/log';
import { MAX_STREAMS } from '@gpg-bridge/core/mux/frame';
import type { Carrier } from '@gpg-bridge/core/mux/muxer';
import { pipeSocket } from '@gpg-bridge/core/mux/pipe';
import { TargetMuxer } from '@gpg-bridge/core/mux/target-muxer';
import { hasPrivateKeys, importPublicKeys } from '@gpg-bridge/core/remote/keyring';
import { listenInTarget, type TargetListener } from '@gpg-bridge/core/remote/listen';
import { type Finding, probe } from '@gpg-bridge/core/remote/probe';
import type { SocketType } from '@gpg-bridge/core/socket-type';
import type { ServerConfig } from '../launch/config.ts';

const PROBE_MS = 2_000;
const BACKLOG = 4_096;
const FLUSH_MS = 1_000;
/** Bytes of public keys that may wait for gpg. */
const MAX_KEYS_BYTES = 64 * 1_048_576;

/** A target's end that tells the host why it broke, and its server whether one more client fits. */
class ServerMuxer extends TargetMuxer {
  override get hasRoom(): boolean {
    return super.hasRoom;
  }

  protected override end(error: BridgeError | undefined): void {
    if (error && error.code !== 'TARGET_CLOSED' && !this.closed) this.error(error.message);
    super.end(error);
  }
}

/** The socket server on Node: the listening and the protocol of the core, joined. */
export class SocketServer {
  readonly #muxer: ServerMuxer;
  readonly #listeners: (TargetListener & { type: SocketType })[] = [];
  /** Clients that came before READY, or while there are too many: they have their turn later. */
  readonly #waiting: { socket: Socket; type: SocketType }[] = [];
  readonly #warnings: string[] = [];
  readonly #madeDirectories: string[] = [];
  #ready = false;
  #keys: Buffer[] = [];
  #importing: Promise<void> | undefined;
  #firstKeys!: (keys: Buffer) => void;
  #end!: (status: number) => void;
  #stopping: Promise<void> | undefined;

  constructor(
    private readonly config: ServerConfig,
    private readonly carrier: Carrier,
    private readonly log: (text: string) => void,
  ) {
    this.#muxer = new ServerMuxer(carrier, { maxStreams: config.maxStreams ?? MAX_STREAMS });
  }

  /** Serves until the host or a signal ends it; resolves to the exit status. */
  start(): Promise<number> {
    const ended = new Promise<number>((resolve) => {
      this.#end = resolve;
    });
    const firstKeys = new Promise<Buffer>((resolve) => {
      this.#firstKeys = resolve;
    });
    this.#muxer.on('pubkey', (keys) => this.#onKeys(keys));
    this.#muxer.on('close', (error) => void this.stop(error?.code === 'TARGET_CLOSED' ? 0 : 1));
    this.#listenAndTell(firstKeys).catch((error) => {
      this.log(toBridgeError(error, 'the socket server failed').message);
      void this.stop(1);
    });
    return ended;
  }

  /** Removes what is ours and ends. */
  stop(status: number): Promise<void> {
    this.#stopping ??= this.#cleanUp().then(() => this.#end(status));
    return this.#stopping;
  }

  async #listenAndTell(firstKeys: Promise<Buffer>): Promise<void> {
    if (this.config.ssh) await this.#attempt(() => this.#listen('ssh-agent', this.#sshSocket()));
    if (this.config.gpg) {
      const path = await this.#attempt(() => this.#gpgSocket());
      const keys = await firstKeys;
      if (path !== undefined) {
        if (keys.length > 0 && (await this.#mayBeTaken(path))) await this.#import([keys]);
        await this.#attempt(() => this.#listen('gpg-agent', path));
      }
    }
    if (this.#listeners.length === 0) {
      const nothing = 'the socket server has nothing to do: no socket was asked for. Ask for one.';
      this.#muxer.error(this.#warnings.join('\n') || nothing);
      this.#muxer.close();
      return;
    }
    const sockets = this.#listeners.map(({ type, path }) => ({ type, path }));
    this.#muxer.ready({ runtime: 'node', sockets, warnings: this.#warnings });
    this.#ready = true;
    this.#openNext();
    this.#importNext();
  }

  /** One socket that can't be had leaves the other. */
  async #attempt<T>(step: () => Promise<T>): Promise<T | undefined> {
    try {
      return await step();
    } catch (error) {
      this.#notice(toBridgeError(error, 'the socket server failed').message);
      return undefined;
    }
  }

  /** Something the person should hear about: in READY when it happens before, in the log always. */
  #notice(text: string): void {
    if (!this.#ready) this.#warnings.push(text);
    this.log(text);
  }

  readonly #onLog = (text: string, level: LogLevel): void => {
    if (level === 'warn' || level === 'error') this.#notice(text);
    else if (level === 'info') this.log(text);
  };

  #sshSocket(): string {
    return join(this.config.sshDir ?? join(process.env.HOME || homedir(), '.ssh'), 'agent.sock');
  }

  async #gpgSocket(): Promise<string> {
    await findProgram('gpg');
    const path = await listDir('agent-socket');
    if (await hasPrivateKeys()) {
      const home = await listDir('homedir');
      this.#notice(`the private keys in ${home} can't be used while the bridge is up`);
    }
    return path;
  }

  /** What must not be replaced is known before the keyring is touched. */
  async #mayBeTaken(path: string): Promise<boolean> {
    const { found } = await probe({
      path,
      kind: 'gpg-agent',
      hostSockets: this.config.hostSockets,
      timeoutMs: this.config.probeMs ?? PROBE_MS,
    });
    const never: ReadonlySet<Finding['found']> = new Set(['host-agent', 'foreign-file']);
    return !never.has(found) && (found !== 'forward' || this.config.takeover === true);
  }

  async #listen(type: SocketType, path: string): Promise<void> {
    for (let dir = dirname(path); !existsSync(dir); dir = dirname(dir)) this.#madeDirectories.push(dir);
    const listener = await listenInTarget({
      path,
      kind: type,
      onConnection: (socket) => this.#onClient(socket, type),
      log: this.#onLog,
      takeover: this.config.takeover,
      hostSockets: this.config.hostSockets,
      stopOwnAgent: async () => {
        await killAgent();
        this.#notice(`stopped the target's own gpg-agent, which listened on ${path}`);
      },
      backlog: this.config.backlog ?? BACKLOG,
      probeTimeoutMs: this.config.probeMs ?? PROBE_MS,
    });
    if (this.#stopping) await listener.close();
    else this.#listeners.push({ type, path, close: () => listener.close() });
  }

  #onClient(socket: Socket, type: SocketType): void {
    socket.on('error', () => {}); // shows as a close
    if (this.#waiting.length >= (this.config.backlog ?? BACKLOG)) {
      socket.destroy();
      return;
    }
    this.#waiting.push({ socket, type });
    this.#openNext();
  }

  #openNext(): void {
    while (this.#ready && this.#waiting.length > 0 && !this.#muxer.closed && this.#muxer.hasRoom) {
      const { socket, type } = this.#waiting.shift()!;
      const stream = this.#muxer.open(type);
      stream.once('close', () => this.#openNext());
      pipeSocket(stream, socket);
    }
  }

  #onKeys(keys: Buffer): void {
    if (!this.config.gpg) return;
    this.#firstKeys(keys);
    this.#firstKeys = (more) => {
      const held = this.#keys.reduce((sum, { length }) => sum + length, 0);
      if (held + more.length > MAX_KEYS_BYTES) this.log('dropped public keys: too many wait for gpg');
      else this.#keys.push(more);
    };
    this.#importNext();
  }

  /** One gpg at a time takes all that has come after READY. */
  #importNext(): void {
    if (!this.#ready || this.#importing || this.#keys.length === 0) return;
    this.#importing = this.#import(this.#keys.splice(0)).then(() => {
      this.#importing = undefined;
      this.#importNext();
    });
  }

  async #import(parts: Buffer[]): Promise<void> {
    await this.#attempt(async () => {
      const trust = this.config.trust ?? [];
      const { added, updated, unchanged } = await importPublicKeys({ keys: Buffer.concat(parts), trust });
      const seen = added + updated + unchanged;
      this.log(`imported public keys: ${seen} received, ${added} new, ${unchanged} unchanged`);
    });
  }

  async #cleanUp(): Promise<void> {
    for (const listener of this.#listeners) await listener.close().catch((error) => this.log(String(error)));
    for (const directory of this.#madeDirectories) {
      try {
        rmdirSync(directory);
      } catch {
        // It is in use by now, and stays.
      }
    }
    this.#muxer.close();
    const { output } = this.carrier;
    if (output.writableFinished || output.destroyed) return;
    await new Promise((resolve) => {
      output.once('finish', resolve).once('close', resolve);
      setTimeout(resolve, FLUSH_MS); // a host that does not read keeps nothing alive
    });
  }
}
