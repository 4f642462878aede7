/**
 * News of keys: many watches on one stream. They are hints. A stream that ends takes its watches along, and each
 * of them says so: the waiter then looks for itself.
 */
import type { Channel } from "./channel.ts";
import { unsent } from "./errors.ts";
import type { GrpcStream } from "./grpc-stream.ts";
import { type KeyRange, readWatch, type WatchedEvents, writeWatch, writeWatchCancel } from "./watch-messages.ts";

const PATH = "/etcdserverpb.Watch/Watch";
const OPEN_MS = 5000;

export interface WatchListener {
  /** `revision`: of the last change among them. */
  changed(keys: readonly Buffer[], revision: bigint): void;
  /** The member watches, from after `revision` on. Called at most once, before any change is reported. */
  began?(revision: bigint): void;
  /** Called once: nothing more will be heard, and something may have been missed. */
  ended(): void;
}

interface Watch {
  readonly id: number;
  readonly events: WatchedEvents;
  readonly range: KeyRange;
  readonly fromRevision: bigint | undefined;
  readonly listener: WatchListener;
}

export class Watches {
  readonly #channel: Channel;
  readonly #watches = new Map<number, Watch>();
  #lastId = 0;
  #stream: Promise<GrpcStream | undefined> | undefined;

  constructor(channel: Channel) {
    this.#channel = channel;
  }

  /** How many there are now. */
  get size(): number {
    return this.#watches.size;
  }

  /** Tells of such events from `fromRevision` on; without it, from when the watch begins. Returns what stops it. */
  add(events: WatchedEvents, range: KeyRange, fromRevision: bigint | undefined, listener: WatchListener): () => void {
    const watch: Watch = { id: ++this.#lastId, events, range, fromRevision, listener };
    this.#watches.set(watch.id, watch);
    void this.#send(watch);
    return () => {
      if (this.#watches.delete(watch.id)) void this.#cancel(watch.id);
    };
  }

  close(): void {
    const stream = this.#stream;
    this.#stream = undefined;
    this.#endAll();
    void stream?.then((open) => open?.abandon()).catch(() => undefined);
  }

  async #send(watch: Watch): Promise<void> {
    try {
      const stream = await this.#open();
      if (stream === undefined) throw unsent("no connection");
      if (this.#watches.has(watch.id))
        stream.write(writeWatch(watch.id, watch.events, watch.range, watch.fromRevision).take());
    } catch {
      this.#end(watch.id);
    }
  }

  async #cancel(id: number): Promise<void> {
    const stream = await this.#stream?.catch(() => undefined);
    stream?.write(writeWatchCancel(id).take());
  }

  #open(): Promise<GrpcStream | undefined> {
    if (this.#stream !== undefined) return this.#stream;
    const opening: Promise<GrpcStream | undefined> = this.#channel.open(
      PATH,
      {
        message: (bytes) => this.#read(bytes),
        ended: () => {
          if (this.#stream !== opening) return;
          this.#stream = undefined;
          this.#endAll();
        },
      },
      OPEN_MS,
    );
    this.#stream = opening;
    const forget = (): void => {
      if (this.#stream === opening) this.#stream = undefined;
    };
    opening.then((stream) => stream === undefined && forget(), forget);
    return opening;
  }

  #read(bytes: Buffer): void {
    const { header, watchId, created, canceled, changed, changedRevision } = readWatch(bytes);
    const watch = this.#watches.get(Number(watchId));
    if (created && !canceled) watch?.listener.began?.(header.revision);
    if (changed.length > 0) watch?.listener.changed(changed, changedRevision);
    // A member cancels what it cannot serve: its revision is compacted, or it is not permitted.
    if (canceled && watchId < 0n) this.#endAll();
    else if (canceled) this.#end(Number(watchId));
  }

  #end(id: number): void {
    const watch = this.#watches.get(id);
    if (this.#watches.delete(id)) watch?.listener.ended();
  }

  #endAll(): void {
    // One that ends may begin another, which belongs to the next stream.
    const ids = [...this.#watches.keys()];
    for (const id of ids) this.#end(id);
  }
}
