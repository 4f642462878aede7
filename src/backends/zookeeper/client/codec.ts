/** ZooKeeper's serialisation ("jute"): big-endian integers, and buffers, strings and vectors after their length. */

/** Buffers of this size are reused; larger ones, for larger requests, are not. */
const REUSED_BYTES = 16_384;

/** Appends values, and frames of them, to one growing buffer: many requests leave in one write. */
export class Writer {
  #bytes: Buffer;
  #end = 0;
  #spare: Buffer | undefined;

  constructor(size: number = REUSED_BYTES) {
    this.#bytes = Buffer.allocUnsafeSlow(size);
  }

  get length(): number {
    return this.#end;
  }

  int(value: number): this {
    this.#reserve(4);
    this.#end = this.#bytes.writeInt32BE(value, this.#end);
    return this;
  }

  long(value: bigint): this {
    this.#reserve(8);
    this.#end = this.#bytes.writeBigInt64BE(value, this.#end);
    return this;
  }

  bool(value: boolean): this {
    this.#reserve(1);
    this.#bytes[this.#end++] = value ? 1 : 0;
    return this;
  }

  buffer(value: Uint8Array): this {
    this.int(value.length);
    this.#reserve(value.length);
    this.#bytes.set(value, this.#end);
    this.#end += value.length;
    return this;
  }

  string(value: string): this {
    // A UTF-16 unit needs at most three bytes of UTF-8: so it is written first, and its length after it is known.
    this.#reserve(4 + value.length * 3);
    const length = this.#bytes.write(value, this.#end + 4);
    this.#bytes.writeInt32BE(length, this.#end);
    this.#end += 4 + length;
    return this;
  }

  strings(values: readonly string[]): this {
    this.int(values.length);
    for (const value of values) this.string(value);
    return this;
  }

  /** Appends what `write` writes, after its length. */
  frame(write: (writer: this) => void): this {
    const start = this.#end;
    this.int(0);
    write(this);
    this.#bytes.writeInt32BE(this.#end - start - 4, start);
    return this;
  }

  /** Forgets what was written after `length`. */
  truncate(length: number): void {
    this.#end = length;
  }

  /** Hands over everything written, and starts again. The caller may {@link giveBack} the bytes later. */
  take(): Buffer {
    const taken = this.#bytes.subarray(0, this.#end);
    this.#bytes = this.#spare ?? Buffer.allocUnsafeSlow(REUSED_BYTES);
    this.#spare = undefined;
    this.#end = 0;
    return taken;
  }

  /** The kernel has the bytes: their room can be written to again. */
  giveBack(taken: Buffer): void {
    if (taken.buffer.byteLength === REUSED_BYTES) this.#spare = Buffer.from(taken.buffer);
  }

  #reserve(size: number): void {
    const needed = this.#end + size;
    if (needed <= this.#bytes.length) return;
    const grown = Buffer.allocUnsafeSlow(Math.max(needed, this.#bytes.length * 2));
    this.#bytes.copy(grown, 0, 0, this.#end);
    this.#bytes = grown;
  }
}

/** Reads values from one frame, which is a part of `bytes`. Throws a `RangeError` where the frame is too short. */
export class Reader {
  #bytes: Buffer;
  #at: number;
  #end: number;

  constructor(bytes: Buffer, start: number = 0, end: number = bytes.length) {
    this.#bytes = bytes;
    this.#at = start;
    this.#end = end;
  }

  /** Goes on with another frame: one reader serves a connection. */
  open(bytes: Buffer, start: number, end: number): void {
    this.#bytes = bytes;
    this.#at = start;
    this.#end = end;
  }

  /** How many bytes have not been read. */
  get left(): number {
    return this.#end - this.#at;
  }

  skip(bytes: number): void {
    this.#take(bytes);
  }

  int(): number {
    return this.#bytes.readInt32BE(this.#take(4));
  }

  long(): bigint {
    return this.#bytes.readBigInt64BE(this.#take(8));
  }

  bool(): boolean {
    return this.#bytes[this.#take(1)] === 1;
  }

  /** The bytes, copied: the frame they came in is not kept alive by them. */
  buffer(): Buffer {
    const length = this.#length(1);
    const start = this.#take(length);
    return Buffer.from(this.#bytes.subarray(start, start + length));
  }

  string(): string {
    const length = this.#length(1);
    const start = this.#take(length);
    return this.#bytes.toString("utf8", start, start + length);
  }

  strings(): string[] {
    const values: string[] = [];
    for (let left = this.#length(4); left > 0; left--) values.push(this.string());
    return values;
  }

  /** Where the next `size` bytes begin. */
  #take(size: number): number {
    const start = this.#at;
    this.#at += size;
    if (this.#at > this.#end) throw new RangeError("a frame that is too short");
    return start;
  }

  /** A length or count; -1 stands for "null", which is read as empty. */
  #length(itemSize: number): number {
    const length = this.int();
    if (length === -1) return 0;
    if (length < 0 || length * itemSize > this.left) throw new RangeError(`bad length ${length} in a frame`);
    return length;
  }
}
