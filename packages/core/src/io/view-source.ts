import { Readable } from 'node:stream';

/** Gets bytes as a view of memory that is used again at once: what is kept of it has to be copied. */
export type ViewSink = (view: Buffer) => void;

/**
 * A readable that can also hand its bytes over as views of the one buffer they were read into, past
 * Node's stream buffers: that spares an allocation of 64 KiB and two turns through the stream's state for
 * every read, and a process that has carried a large stream is a fifth smaller afterwards.
 */
export interface ViewSource extends Readable {
  /** Hands everything from now on to `sink`, what was read before it first; undefined takes that back. */
  handViewsTo(sink: ViewSink | undefined): void;
}

/** Reads `input` with `sink`, by views where it has them; the sink has to copy what it keeps. */
export function takeViews(input: Readable, sink: ViewSink): void {
  if (isViewSource(input)) input.handViewsTo(sink);
  else input.on('data', sink);
}

/** Ends what `takeViews` began. */
export function leaveViews(input: Readable, sink: ViewSink): void {
  if (isViewSource(input)) input.handViewsTo(undefined);
  else input.off('data', sink);
}

function isViewSource(input: Readable): input is ViewSource {
  return 'handViewsTo' in input;
}

/** The part of a view source that sockets and demultiplexed channels share: who gets the next bytes. */
export class ViewOutlet {
  #sink: ViewSink | undefined;
  #next: ViewSink | undefined;

  constructor(private readonly source: Readable) {}

  /** Hands a view to the sink, or a copy to the stream's own buffer; false when that is full. */
  give(view: Buffer): boolean {
    if (!this.#sink) return this.source.push(Buffer.from(view));
    this.#sink(view);
    return true;
  }

  /** Hands over a view of a source that is ending; without a sink there is nobody left to take it. */
  last(view: Buffer): void {
    this.#sink?.(view);
  }

  /** See `ViewSource.handViewsTo`. */
  handTo(sink: ViewSink | undefined): void {
    this.#sink = undefined;
    this.#next = sink;
    if (!sink) return;
    if (this.source.readableLength === 0) this.#switch(sink);
    // Not from inside the caller, as with an ordinary listener: it may not be ready for its first bytes.
    else process.nextTick(() => this.#drain(sink));
  }

  #drain(sink: ViewSink): void {
    const wasPaused = this.source.isPaused();
    // By its length: to read from a socket that has nothing would begin to read again, paused or not.
    while (this.#next === sink && this.source.readableLength > 0) {
      const chunk = this.source.read() as Buffer | null;
      if (chunk === null) break;
      sink(chunk);
    }
    if (this.#next !== sink) return;
    // A sink that has had enough already says when it goes on.
    if (this.source.isPaused() && !wasPaused) this.#sink = sink;
    else this.#switch(sink);
  }

  #switch(sink: ViewSink): void {
    this.#sink = sink;
    this.source.resume();
  }
}

/** How a `ViewReadable` makes its producer wait. */
export interface ViewReadableControl {
  hold(): void;
  release(): void;
}

/** A view source that is fed by hand, for bytes that are only a part of what a socket carries. */
export class ViewReadable extends Readable implements ViewSource {
  readonly #outlet = new ViewOutlet(this);
  readonly #control: ViewReadableControl;

  constructor(control: ViewReadableControl) {
    super();
    this.#control = control;
  }

  /** Takes the next bytes, which are the caller's again afterwards. */
  feed(view: Buffer): void {
    if (!this.#outlet.give(view)) this.#control.hold();
  }

  handViewsTo(sink: ViewSink | undefined): void {
    this.#outlet.handTo(sink);
  }

  override pause(): this {
    this.#control.hold();
    return super.pause();
  }

  override resume(): this {
    this.#control.release();
    return super.resume();
  }

  override _read(): void {
    this.#control.release();
  }
}
