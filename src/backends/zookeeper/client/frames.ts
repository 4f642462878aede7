/**
 * Cuts the byte stream from a server into frames: a length of four bytes, then as many bytes.
 *
 * A length that a server only announces costs no memory: a frame takes room as its bytes arrive, and at most twice as much,
 * in however many chunks they come.
 */

/**
 * A length above this is no answer to anything that we ask. Servers refuse requests above 1 MB, and Java's clients answers
 * above that; this has room for the names of some 60,000 nodes.
 */
export const FRAME_MAX_BYTES: number = 4 * 1024 * 1024;

const HEAD = 4;

export class FrameSplitter {
  /** The largest frame that may come now: the connection knows what it waits for. */
  maxBytes: number;
  /** The beginning of a frame whose end has not come yet; only `#have` bytes of it count. */
  #partial: Buffer = Buffer.alloc(0);
  #have = 0;

  constructor(maxBytes: number = FRAME_MAX_BYTES) {
    this.maxBytes = maxBytes;
  }

  /** Passes on every frame that is complete now, as a part of `bytes`. Throws a `RangeError` on an impossible length. */
  push(chunk: Buffer, frame: (bytes: Buffer, start: number, end: number) => void): void {
    let at = this.#have === 0 ? 0 : this.#finish(chunk, frame);
    while (chunk.length - at >= HEAD) {
      const end = at + HEAD + this.#length(chunk, at);
      if (end > chunk.length) break;
      frame(chunk, at + HEAD, end);
      at = end;
    }
    if (at < chunk.length) this.#keep(chunk, at, chunk.length);
  }

  /** Completes the unfinished frame, if the chunk has enough, and passes it on. Returns where the rest of the chunk begins. */
  #finish(chunk: Buffer, frame: (bytes: Buffer, start: number, end: number) => void): number {
    let at = 0;
    if (this.#have < HEAD) {
      at = Math.min(HEAD - this.#have, chunk.length);
      this.#keep(chunk, 0, at);
      if (this.#have < HEAD) return at;
    }
    const whole = HEAD + this.#length(this.#partial, 0);
    const end = Math.min(chunk.length, at + whole - this.#have);
    this.#keep(chunk, at, end, whole);
    if (this.#have < whole) return end;
    const bytes = this.#partial;
    this.#partial = Buffer.alloc(0);
    this.#have = 0;
    frame(bytes, HEAD, whole);
    return end;
  }

  /** Copied, so the few bytes at its end do not keep a large chunk alive. */
  #keep(chunk: Buffer, start: number, end: number, whole: number = Infinity): void {
    const needed = this.#have + end - start;
    if (needed > this.#partial.length) {
      const grown = Buffer.allocUnsafeSlow(Math.min(whole, Math.max(64, 2 * needed)));
      this.#partial.copy(grown, 0, 0, this.#have);
      this.#partial = grown;
    }
    chunk.copy(this.#partial, this.#have, start, end);
    this.#have = needed;
  }

  #length(bytes: Buffer, at: number): number {
    const length = bytes.readInt32BE(at);
    if (length < 0 || length > this.maxBytes) throw new RangeError(`bad frame length ${length}`);
    return length;
  }
}
