/** Protocol buffers, as far as etcd's messages need them: varints and length-delimited fields. Every length is checked before it is believed. */

const VARINT = 0;
const FIXED64 = 1;
const BYTES = 2;
const FIXED32 = 5;

/** The server sent what cannot be a message of its protocol. */
export class MalformedError extends Error {
  constructor(what: string) {
    super(`a malformed answer: ${what}`);
    this.name = "MalformedError";
  }
}

/** Writes one message. A field with its default value (0, empty, false) is left out, unless the method says otherwise. */
export class Writer {
  #bytes: Buffer;
  #length = 0;

  constructor(capacity = 128) {
    this.#bytes = Buffer.allocUnsafe(capacity);
  }

  int(field: number, value: number | bigint | undefined): this {
    // Not a strict comparison with 0: that of a bigint is 0n.
    return value === undefined || value === 0 || value === 0n ? this : this.always(field, value);
  }

  /** Also 0: a member of a `oneof`, whose presence means something. */
  always(field: number, value: number | bigint): this {
    this.#varint(field * 8 + VARINT);
    this.#varint(value);
    return this;
  }

  bool(field: number, value: boolean | undefined): this {
    return value === true ? this.always(field, 1) : this;
  }

  bytes(field: number, value: Uint8Array | undefined): this {
    if (value === undefined || value.length === 0) return this;
    this.#varint(field * 8 + BYTES);
    this.#varint(value.length);
    this.#reserve(value.length);
    this.#bytes.set(value, this.#length);
    this.#length += value.length;
    return this;
  }

  text(field: number, value: string): this {
    return this.bytes(field, Buffer.from(value));
  }

  /** A message inside this one, also an empty one. */
  message(field: number, write: (writer: this) => void): this {
    this.#varint(field * 8 + BYTES);
    const start = this.#length;
    // Most are shorter than 128 bytes, whose length takes one byte.
    this.#reserve(1);
    this.#length++;
    write(this);
    const size = this.#length - start - 1;
    const more = varintSize(size) - 1;
    this.#reserve(more);
    if (more > 0) this.#bytes.copyWithin(start + 1 + more, start + 1, this.#length);
    const end = this.#length + more;
    this.#length = start;
    this.#varint(size);
    this.#length = end;
    return this;
  }

  /** What was written, in a buffer of its own. */
  take(): Buffer {
    return this.#bytes.subarray(0, this.#length);
  }

  #varint(value: number | bigint): void {
    this.#reserve(10);
    if (typeof value === "bigint") return this.#big(BigInt.asUintN(64, value));
    if (!Number.isSafeInteger(value) || value < 0) throw new RangeError(`Not an unsigned number: ${value}`);
    let rest = value;
    while (rest > 127) {
      this.#bytes[this.#length++] = (rest % 128) | 128;
      rest = Math.floor(rest / 128);
    }
    this.#bytes[this.#length++] = rest;
  }

  #big(value: bigint): void {
    let rest = value;
    while (rest > 127n) {
      this.#bytes[this.#length++] = Number(rest & 127n) | 128;
      rest >>= 7n;
    }
    this.#bytes[this.#length++] = Number(rest);
  }

  #reserve(more: number): void {
    if (this.#length + more <= this.#bytes.length) return;
    const bigger = Buffer.allocUnsafe(Math.max(2 * this.#bytes.length, this.#length + more));
    this.#bytes.copy(bigger, 0, 0, this.#length);
    this.#bytes = bigger;
  }
}

function varintSize(value: number): number {
  let size = 1;
  for (let rest = value; rest > 127; rest = Math.floor(rest / 128)) size++;
  return size;
}

/**
 * Reads the fields of one message, in the order in which they come:
 *
 *     while (reader.next()) switch (reader.field) { case 1: … reader.int(); break; default: reader.skip(); }
 */
export class Reader {
  /** Of the field that next() found. */
  field = 0;
  readonly #bytes: Uint8Array;
  readonly #end: number;
  #at: number;
  #wire = -1;

  constructor(bytes: Uint8Array, start = 0, end: number = bytes.length) {
    this.#bytes = bytes;
    this.#at = start;
    this.#end = end;
  }

  /** Goes to the next field. `false`: there is none. */
  next(): boolean {
    if (this.#at >= this.#end) return false;
    const tag = this.#number();
    this.field = Math.floor(tag / 8);
    this.#wire = tag % 8;
    if (this.field < 1 || this.field > 536_870_911) throw new MalformedError(`field ${this.field}`);
    return true;
  }

  /** A signed 64-bit number. */
  int(): bigint {
    this.#expect(VARINT);
    return BigInt.asIntN(64, this.#big());
  }

  /** An unsigned 64-bit number, such as an id. */
  unsigned(): bigint {
    this.#expect(VARINT);
    return this.#big();
  }

  /** A number that is a revision, a count or a duration: never negative. */
  natural(): bigint {
    const value = this.int();
    if (value < 0n) throw new MalformedError(`${value} where only a natural number makes sense`);
    return value;
  }

  bool(): boolean {
    this.#expect(VARINT);
    return this.#big() !== 0n;
  }

  /** A view into the answer, not a copy. */
  bytes(): Uint8Array {
    const [start, end] = this.#span();
    return this.#bytes.subarray(start, end);
  }

  text(): string {
    const [start, end] = this.#span();
    return Buffer.from(this.#bytes.buffer, this.#bytes.byteOffset + start, end - start).toString();
  }

  /** A message inside this one. */
  message(): Reader {
    const [start, end] = this.#span();
    return new Reader(this.#bytes, start, end);
  }

  /** A field that we do not know: newer servers may have some. */
  skip(): void {
    if (this.#wire === VARINT) this.#big();
    else if (this.#wire === BYTES) this.#span();
    else if (this.#wire === FIXED64) this.#forward(8);
    else if (this.#wire === FIXED32) this.#forward(4);
    else throw new MalformedError(`wire type ${this.#wire}`);
  }

  #expect(wire: number): void {
    if (this.#wire !== wire) throw new MalformedError(`field ${this.field} has wire type ${this.#wire}, not ${wire}`);
  }

  #span(): readonly [start: number, end: number] {
    this.#expect(BYTES);
    const length = this.#number();
    const start = this.#at;
    this.#forward(length);
    return [start, this.#at];
  }

  #forward(count: number): void {
    if (count > this.#end - this.#at) throw new MalformedError(`a length of ${count} past the end`);
    this.#at += count;
  }

  /** A tag or a length: 32 bits at most. */
  #number(): number {
    let value = 0;
    let scale = 1;
    for (let count = 0; count < 5; count++, scale *= 128) {
      const byte = this.#byte();
      value += (byte & 127) * scale;
      if (byte < 128) {
        if (value > 0xffff_ffff) break;
        return value;
      }
    }
    throw new MalformedError("a number of more than 32 bits");
  }

  #big(): bigint {
    let low = 0;
    let scale = 1;
    // 49 bits fit a double: enough for most revisions, without the cost of a bigint for each byte.
    for (let count = 0; count < 7; count++, scale *= 128) {
      const byte = this.#byte();
      low += (byte & 127) * scale;
      if (byte < 128) return BigInt(low);
    }
    let value = BigInt(low);
    for (let shift = 49n; shift < 70n; shift += 7n) {
      const byte = this.#byte();
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) {
        if (value >> 64n !== 0n) break;
        return value;
      }
    }
    throw new MalformedError("a number of more than 64 bits");
  }

  #byte(): number {
    if (this.#at >= this.#end) throw new MalformedError("it ends inside a number");
    return this.#bytes[this.#at++] as number;
  }
}
