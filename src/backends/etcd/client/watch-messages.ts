/** The messages of a stream of watches. */
import { Reader, Writer } from "./codec.ts";
import { type Header, NO_HEADER, readHeader, readKeyValue } from "./kv-messages.ts";

export interface WatchResponse {
  readonly header: Header;
  readonly watchId: bigint;
  readonly created: boolean;
  readonly canceled: boolean;
  /** Above 0: what was asked for is compacted. */
  readonly compactRevision: bigint;
  readonly reason: string;
  /** The keys that were deleted. */
  readonly deleted: readonly Buffer[];
}

/** One key, or all from `key` up to `end`, which is not among them. */
export interface KeyRange {
  readonly key: Uint8Array;
  readonly end?: Uint8Array | undefined;
}

const NO_PUT = new Uint8Array([0]);
const DELETE = 1n;

/** Events other than deletions are not sent. */
export function writeWatchDeletes(watchId: number, range: KeyRange, fromRevision: bigint): Writer {
  const { key, end } = range;
  return new Writer().message(1, (part) =>
    part.bytes(1, key).bytes(2, end).int(3, fromRevision).bytes(5, NO_PUT).int(7, watchId),
  );
}

export function writeWatchCancel(watchId: number): Writer {
  return new Writer().message(2, (part) => part.int(1, watchId));
}

export function readWatch(bytes: Uint8Array): WatchResponse {
  const reader = new Reader(bytes);
  let [header, watchId, compactRevision, reason] = [NO_HEADER, 0n, 0n, ""];
  let [created, canceled] = [false, false];
  const deleted: Buffer[] = [];
  while (reader.next()) {
    if (reader.field === 1) header = readHeader(reader.message());
    else if (reader.field === 2) watchId = reader.int();
    else if (reader.field === 3) created = reader.bool();
    else if (reader.field === 4) canceled = reader.bool();
    else if (reader.field === 5) compactRevision = reader.natural();
    else if (reader.field === 6) reason = reader.text();
    else if (reader.field === 11) deleted.push(...readDeleted(reader.message()));
    else reader.skip();
  }
  return { header, watchId, created, canceled, compactRevision, reason, deleted };
}

function readDeleted(reader: Reader): readonly Buffer[] {
  let type = 0n;
  let key: Buffer | undefined;
  while (reader.next()) {
    if (reader.field === 1) type = reader.int();
    else if (reader.field === 2) ({ key } = readKeyValue(reader.message()));
    else reader.skip();
  }
  return type === DELETE && key !== undefined ? [key] : [];
}
