/** The messages about keys: what is asked, as bytes, and what is answered, checked. */
import type { Rank } from "./call-window.ts";
import { MalformedError, Reader, Writer } from "./codec.ts";

/** Every answer has one. */
export interface Header {
  readonly clusterId: bigint;
  readonly memberId: bigint;
  readonly revision: bigint;
  /** The term of the last entry that the member has applied. */
  readonly term: bigint;
}

export interface KeyValue {
  readonly key: Buffer;
  readonly createRevision: bigint;
  readonly modRevision: bigint;
  readonly version: bigint;
  readonly value: Buffer;
  /** 0: none. */
  readonly lease: bigint;
}

export interface RangeRequest {
  readonly key: Uint8Array;
  /** All keys from `key` up to this one, which is not among them. Absent: `key` alone. */
  readonly end?: Uint8Array | undefined;
  readonly limit?: number | undefined;
  /** By the revision that created them. @default by key */
  readonly byCreation?: "ascending" | "descending" | undefined;
  readonly keysOnly?: boolean | undefined;
  readonly maxCreateRevision?: bigint | undefined;
  /** As it was then. Refused where that is compacted. @default now */
  readonly revision?: bigint | undefined;
  /** Read from the member's own memory, however old. */
  readonly serializable?: boolean | undefined;
}

export interface RangeResponse {
  readonly header: Header;
  readonly kvs: readonly KeyValue[];
  /** There are more than were asked for. */
  readonly more: boolean;
}

export type Compare = {
  readonly key: Uint8Array;
  /** All keys of the range; where there is none, a key that does not exist, whose numbers are 0. */
  readonly end?: Uint8Array | undefined;
  readonly is?: "equal" | "greater" | "less" | undefined;
} & ({ readonly createRevision: bigint } | { readonly modRevision: bigint });

export type Operation =
  | { readonly range: RangeRequest }
  | { readonly put: { readonly key: Uint8Array; readonly value: Uint8Array; readonly lease: bigint } }
  | { readonly remove: { readonly key: Uint8Array } }
  /** Writes the key as it is: only its last revision changes. Where it does not exist, all is refused. */
  | { readonly touch: { readonly key: Uint8Array } }
  /** On conditions of its own, which are judged before anything of the whole is done. */
  | { readonly txn: Branches };

interface Branches {
  /** All must hold for `success`. */
  readonly when: readonly Compare[];
  readonly success: readonly Operation[];
  readonly failure?: readonly Operation[] | undefined;
}

export interface TxnRequest extends Branches {
  /** Where many calls are out. @default "end" */
  readonly rank?: Rank | undefined;
}

export interface TxnResponse {
  readonly header: Header;
  readonly succeeded: boolean;
  /** One for each operation; those of ranges have keys. */
  readonly kvs: readonly (readonly KeyValue[])[];
  /** How many keys each operation removed; 0 for other operations. */
  readonly removed: readonly bigint[];
}

const ORDER = { ascending: 1, descending: 2 } as const;
const BY_CREATION = 2;
const COMPARES = { equal: 0, greater: 1, less: 2 } as const;
const CREATE_TARGET = 1;
const MOD_TARGET = 2;
/** In one answer, however many listings it has: as many as fit with their records. More would be a mistake, and fill our memory. */
const KEYS_MAX = 250_000;

export function writeRange(request: RangeRequest, writer: Writer = new Writer()): Writer {
  const { byCreation } = request;
  return writer
    .bytes(1, request.key)
    .bytes(2, request.end)
    .int(3, request.limit)
    .int(4, request.revision)
    .int(5, byCreation && ORDER[byCreation])
    .int(6, byCreation && BY_CREATION)
    .bool(7, request.serializable)
    .bool(8, request.keysOnly)
    .int(13, request.maxCreateRevision);
}

export function writeTxn({ when, success, failure = [] }: Branches, writer: Writer = new Writer(512)): Writer {
  for (const compare of when) writer.message(1, (part) => writeCompare(compare, part));
  for (const operation of success) writer.message(2, (part) => writeOperation(operation, part));
  for (const operation of failure) writer.message(3, (part) => writeOperation(operation, part));
  return writer;
}

function writeCompare(compare: Compare, writer: Writer): void {
  const isCreate = "createRevision" in compare;
  writer
    .int(1, COMPARES[compare.is ?? "equal"])
    .int(2, isCreate ? CREATE_TARGET : MOD_TARGET)
    .bytes(3, compare.key);
  // Members of a oneof: 0 must be written too.
  if (isCreate) writer.always(5, compare.createRevision);
  else writer.always(6, compare.modRevision);
  writer.bytes(64, compare.end);
}

function writeOperation(operation: Operation, writer: Writer): void {
  if ("range" in operation) writer.message(1, (part) => writeRange(operation.range, part));
  else if ("put" in operation) {
    const { key, value, lease } = operation.put;
    writer.message(2, (part) => part.bytes(1, key).bytes(2, value).int(3, lease));
  } else if ("remove" in operation) writer.message(3, (part) => part.bytes(1, operation.remove.key));
  else if ("touch" in operation) {
    const { key } = operation.touch;
    writer.message(2, (part) => part.bytes(1, key).bool(5, true).bool(6, true));
  } else writer.message(4, (part) => writeTxn(operation.txn, part));
}

export const NO_HEADER: Header = { clusterId: 0n, memberId: 0n, revision: 0n, term: 0n };

export function readHeader(reader: Reader): Header {
  let { clusterId, memberId, revision, term } = NO_HEADER;
  while (reader.next()) {
    if (reader.field === 1) clusterId = reader.unsigned();
    else if (reader.field === 2) memberId = reader.unsigned();
    else if (reader.field === 3) revision = reader.natural();
    else if (reader.field === 4) term = reader.unsigned();
    else reader.skip();
  }
  return { clusterId, memberId, revision, term };
}

export function readKeyValue(reader: Reader): KeyValue {
  let key = EMPTY;
  let value = EMPTY;
  let [createRevision, modRevision, version, lease] = [0n, 0n, 0n, 0n];
  while (reader.next()) {
    if (reader.field === 1) key = copied(reader);
    else if (reader.field === 2) createRevision = reader.natural();
    else if (reader.field === 3) modRevision = reader.natural();
    else if (reader.field === 4) version = reader.natural();
    else if (reader.field === 5) value = copied(reader);
    else if (reader.field === 6) lease = reader.int();
    else reader.skip();
  }
  return { key, createRevision, modRevision, version, value, lease };
}

const EMPTY: Buffer = Buffer.alloc(0);

/** A view would keep the whole answer in memory as long as one key of it. */
function copied(reader: Reader): Buffer {
  return Buffer.from(reader.bytes());
}

export function readRange(bytes: Uint8Array): RangeResponse {
  return readRangeFrom(new Reader(bytes), KEYS_MAX);
}

function readRangeFrom(reader: Reader, most: number): RangeResponse {
  let header = NO_HEADER;
  let more = false;
  const kvs: KeyValue[] = [];
  while (reader.next()) {
    if (reader.field === 1) header = readHeader(reader.message());
    else if (reader.field === 2) kvs.push(readHeld(reader));
    else if (reader.field === 3) more = reader.bool();
    else reader.skip();
    if (kvs.length > most) throw new MalformedError(`more than ${KEYS_MAX} keys`);
  }
  return { header, kvs, more };
}

/** A key that exists: its revisions and its version are never 0, and it was not created after it was changed. */
function readHeld(reader: Reader): KeyValue {
  const kv = readKeyValue(reader.message());
  const isWhole = kv.key.length > 0 && kv.version > 0n && kv.createRevision > 0n;
  if (!isWhole || kv.modRevision < kv.createRevision) throw new MalformedError("a key that cannot exist");
  return kv;
}

/** `operations`: it answers no more than so many. */
export function readTxn(bytes: Uint8Array, operations: number): TxnResponse {
  const reader = new Reader(bytes);
  let header = NO_HEADER;
  let succeeded = false;
  let room = KEYS_MAX;
  const kvs: (readonly KeyValue[])[] = [];
  const removed: bigint[] = [];
  while (reader.next()) {
    if (reader.field === 1) header = readHeader(reader.message());
    else if (reader.field === 2) succeeded = reader.bool();
    else if (reader.field === 3) {
      if (kvs.length === operations) throw new MalformedError(`more answers than the ${operations} operations`);
      const part = reader.message();
      kvs.push([]);
      removed.push(0n);
      while (part.next()) {
        if (part.field === 1) {
          const found = readRangeFrom(part.message(), room).kvs;
          room -= found.length;
          kvs[kvs.length - 1] = found;
        } else if (part.field === 3) removed[removed.length - 1] = readRemoved(part.message());
        else part.skip();
      }
    } else reader.skip();
  }
  return { header, succeeded, kvs, removed };
}

function readRemoved(reader: Reader): bigint {
  let count = 0n;
  while (reader.next()) {
    if (reader.field === 2) count = reader.natural();
    else reader.skip();
  }
  return count;
}
