import type { Socket } from 'node:net';
import type { Writable } from 'node:stream';
import { takeViews, ViewReadable } from '@gpg-bridge/core/io/view-source';
import type { ExecStream, ExitInfo } from './engine.ts';
import { type StdioChannel, StdioDemuxer } from './stdio-demuxer.ts';

/** An exec stream on a connection that the engine has handed over. One read of the socket is one push. */
export class ApiExecStream implements ExecStream {
  readonly stdout: ViewReadable;
  readonly stderr: ViewReadable;
  readonly exited: Promise<ExitInfo>;
  private readonly full = new Set<StdioChannel>();
  private killed = false;

  constructor(
    private readonly socket: Socket,
    head: Buffer,
    exitInfo: () => Promise<ExitInfo>,
  ) {
    this.stdout = this.channel('stdout');
    this.stderr = this.channel('stderr');
    const demuxer = new StdioDemuxer((channel, piece) => this[channel].feed(piece));
    const take = (chunk: Buffer) => {
      try {
        demuxer.push(chunk);
      } catch (error) {
        this.socket.destroy(error as Error);
      }
    };
    this.exited = new Promise((resolve) => {
      socket.once('close', () => {
        this.stdout.push(null);
        this.stderr.push(null);
        if (this.killed) resolve({ status: null, signal: null });
        else resolve(exitInfo());
      });
    });
    socket.on('error', () => {}); // 'close' follows
    if (head.length > 0) take(head);
    takeViews(socket, take);
  }

  /** The connection itself: what is written goes straight to the engine. */
  get stdin(): Writable {
    return this.socket;
  }

  kill(): void {
    this.killed = true;
    this.socket.destroy();
  }

  private channel(name: StdioChannel): ViewReadable {
    return new ViewReadable({ hold: () => this.hold(name), release: () => this.release(name) });
  }

  private hold(channel: StdioChannel): void {
    this.full.add(channel);
    this.socket.pause();
  }

  private release(channel: StdioChannel): void {
    if (this.full.delete(channel) && this.full.size === 0) this.socket.resume();
  }
}
