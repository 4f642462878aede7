/** Cuts the byte stream from a server into frames: a length of four bytes, then as many bytes. */

/** Servers refuse requests above 1 MB unless told otherwise; an answer beyond this is no ZooKeeper's. */
const FRAME_MOST = 64 * 1024 * 1024;

export class FrameSplitter {
  /** The beginning of a frame whose end has not come yet, as it came. */
  #parts: Buffer[] = [];
  #have = 0;

  /** Tells every frame that is complete now, as a part of `bytes`. Throws a `RangeError` on a length that cannot be. */
  push(chunk: Buffer, frame: (bytes: Buffer, start: number, end: number) => void): void {
    let bytes = chunk;
    if (this.#have > 0) {
      this.#parts.push(chunk);
      this.#have += chunk.length;
      const needed = this.#needed();
      if (this.#have < needed) return;
      // Joined once per frame, not once per chunk: a large frame in many chunks stays cheap.
      bytes = Buffer.concat(this.#parts, this.#have);
      this.#parts = [];
      this.#have = 0;
    }
    let at = 0;
    while (bytes.length - at >= 4) {
      const end = at + 4 + checkedLength(bytes, at);
      if (end > bytes.length) break;
      frame(bytes, at + 4, end);
      at = end;
    }
    if (at < bytes.length) {
      this.#parts = [bytes.subarray(at)];
      this.#have = bytes.length - at;
    }
  }

  /** How many bytes the unfinished frame needs in all, as far as is known. */
  #needed(): number {
    if (this.#have < 4) return 4;
    let [head] = this.#parts as [Buffer];
    if (head.length < 4) {
      head = Buffer.concat(this.#parts, this.#have);
      this.#parts = [head];
    }
    return 4 + checkedLength(head, 0);
  }
}

function checkedLength(bytes: Buffer, at: number): number {
  const length = bytes.readInt32BE(at);
  if (length < 0 || length > FRAME_MOST) throw new RangeError(`bad frame length ${length}`);
  return length;
}
