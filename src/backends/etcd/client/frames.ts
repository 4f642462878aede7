/** gRPC's framing: one byte that says whether the message is compressed, four for its length, and the message. */
import { MalformedError } from "./codec.ts";

const HEAD = 5;
const MIB = 1024 * 1024;
/** etcd takes requests of 1.5 MB; what lists keys may be longer. */
const MAX_BYTES: Readonly<Record<string, number>> = { Range: 64 * MIB, Txn: 16 * MIB, Watch: 64 * MIB };

/** How long one answer to the call with this path may be. */
export function maxBytesOf(path: string): number {
  return MAX_BYTES[path.slice(path.lastIndexOf("/") + 1)] ?? MIB;
}

export function toFrame(message: Uint8Array): Buffer {
  const frame = Buffer.allocUnsafe(HEAD + message.length);
  frame[0] = 0;
  frame.writeUInt32BE(message.length, 1);
  frame.set(message, HEAD);
  return frame;
}

/** Puts messages together from chunks as they come. */
export class Deframer {
  readonly #maxBytes: number;
  #chunks: Buffer[] = [];
  #length = 0;
  /** Bytes that must be there before the next step; the head's at first. */
  #wanted = HEAD;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** True: a message has begun and has not ended. */
  get isInside(): boolean {
    return this.#length > 0;
  }

  /** Calls `found` for each whole message. Throws a {@link MalformedError}. */
  push(chunk: Buffer, found: (message: Buffer) => void): void {
    this.#chunks.push(chunk);
    this.#length += chunk.length;
    while (this.#length >= this.#wanted) {
      const bytes = this.#joined();
      const size = this.#sizeOf(bytes);
      if (bytes.length < HEAD + size) {
        this.#wanted = HEAD + size;
        return;
      }
      this.#chunks = bytes.length > HEAD + size ? [bytes.subarray(HEAD + size)] : [];
      this.#length = bytes.length - HEAD - size;
      this.#wanted = HEAD;
      found(bytes.subarray(HEAD, HEAD + size));
    }
  }

  #sizeOf(bytes: Buffer): number {
    if (bytes[0] !== 0) throw new MalformedError(`compression ${bytes[0]}, which was not offered`);
    const size = bytes.readUInt32BE(1);
    if (size > this.#maxBytes) throw new MalformedError(`a message of ${size} bytes`);
    return size;
  }

  #joined(): Buffer {
    const [first] = this.#chunks;
    const bytes = this.#chunks.length === 1 && first !== undefined ? first : Buffer.concat(this.#chunks, this.#length);
    this.#chunks = [bytes];
    return bytes;
  }
}
