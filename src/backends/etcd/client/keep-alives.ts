/** Keeps leases alive: many on one stream. An answer says what the member believed, not what is true: see the leases' trust. */
import type { Channel } from "./channel.ts";
import { EtcdError, lost } from "./errors.ts";
import type { GrpcStream } from "./grpc-stream.ts";
import { type LeaseResponse, readLease, writeLease } from "./lease-messages.ts";

const PATH = "/etcdserverpb.Lease/LeaseKeepAlive";

interface Asked {
  readonly resolve: (answer: LeaseResponse) => void;
  readonly reject: (error: EtcdError) => void;
  readonly timer: NodeJS.Timeout;
}

export class KeepAlives {
  readonly #channel: Channel;
  /** By lease: those that wait for its next answer, in the order in which they asked. */
  #asked = new Map<bigint, Asked[]>();
  #stream: Promise<GrpcStream | undefined> | undefined;

  constructor(channel: Channel) {
    this.#channel = channel;
  }

  /** Asks the member to keep the lease alive. A ttl of 0: it does not know the lease. */
  async ask(id: bigint, limitMs: number): Promise<LeaseResponse> {
    const deadlineMs = performance.now() + limitMs;
    const stream = await this.#open(limitMs);
    if (stream === undefined) throw lost("the connection was lost");
    const sentMs = performance.now();
    return new Promise((resolve, reject) => {
      const timer = setTimeout(
        () => {
          // Its stream goes too: a late answer must not be taken for that to a later question.
          this.#end(stream, new EtcdError("DEADLINE_EXCEEDED", `no answer to a keep-alive within ${limitMs} ms`));
          this.#channel.late(sentMs);
        },
        Math.max(0, deadlineMs - sentMs),
      );
      const waiting = this.#asked.get(id) ?? [];
      waiting.push({ resolve, reject, timer });
      this.#asked.set(id, waiting);
      stream.write(writeLease(id).take());
    });
  }

  close(): void {
    const stream = this.#stream;
    this.#stream = undefined;
    this.#rejectAll(new EtcdError("CLOSED", "the client is closed"));
    void stream?.then((open) => open?.abandon()).catch(() => undefined);
  }

  #open(limitMs: number): Promise<GrpcStream | undefined> {
    if (this.#stream !== undefined) return this.#stream;
    const opening: Promise<GrpcStream | undefined> = this.#channel.open(
      PATH,
      {
        message: (bytes) => this.#read(bytes),
        ended: (error) => {
          if (this.#stream !== opening) return;
          this.#stream = undefined;
          this.#rejectAll(error ?? lost("the member ended the stream"));
        },
      },
      limitMs,
    );
    this.#stream = opening;
    const forget = (): void => {
      if (this.#stream === opening) this.#stream = undefined;
    };
    opening.then((stream) => stream === undefined && forget(), forget);
    return opening;
  }

  /** A message that is malformed throws, which ends the stream. */
  #read(bytes: Buffer): void {
    const answer = readLease(bytes);
    const waiting = this.#asked.get(answer.id);
    const first = waiting?.shift();
    if (waiting?.length === 0) this.#asked.delete(answer.id);
    if (first === undefined) return;
    clearTimeout(first.timer);
    first.resolve(answer);
  }

  #end(stream: GrpcStream, error: EtcdError): void {
    stream.abandon();
    this.#stream = undefined;
    this.#rejectAll(error);
  }

  #rejectAll(error: EtcdError): void {
    const all = [...this.#asked.values()].flat();
    this.#asked.clear();
    for (const { reject, timer } of all) {
      clearTimeout(timer);
      reject(error);
    }
  }
}
