/** The messages of a stream of watches. */
import { MalformedError, Reader, Writer } from "./codec.ts";
import { type Header, type KeyValue, NO_HEADER, readHeader, readKeyValue } from "./kv-messages.ts";

export interface WatchResponse {
  readonly header: Header;
  readonly watchId: bigint;
  readonly created: boolean;
  readonly canceled: boolean;
  /** Above 0: what was asked for is compacted. */
  readonly compactRevision: bigint;
  readonly reason: string;
  /** The keys that were written or deleted. */
  readonly changed: readonly Buffer[];
  /** When the last of them was. 0: none was. */
  readonly changedRevision: bigint;
}

/** One key, or all from `key` up to `end`, which is not among them. */
export interface KeyRange {
  readonly key: Uint8Array;
  readonly end?: Uint8Array | undefined;
}

/** Which events are sent. */
export type WatchedEvents = "deletes" | "puts";

/** The filter keeps the others back. */
const FILTERS: Readonly<Record<WatchedEvents, Uint8Array>> = {
  deletes: new Uint8Array([0]),
  puts: new Uint8Array([1]),
};

/** The watch is begun again where there are more; what they were is looked for then. */
const CHANGED_MAX = 100_000;

/** `fromRevision` absent: from now on. */
export function writeWatch(
  watchId: number,
  events: WatchedEvents,
  range: KeyRange,
  fromRevision: bigint | undefined,
): Writer {
  const { key, end } = range;
  return new Writer().message(1, (part) =>
    part.bytes(1, key).bytes(2, end).int(3, fromRevision).bytes(5, FILTERS[events]).int(7, watchId),
  );
}

export function writeWatchCancel(watchId: number): Writer {
  return new Writer().message(2, (part) => part.int(1, watchId));
}

export function readWatch(bytes: Uint8Array): WatchResponse {
  const reader = new Reader(bytes);
  let [header, watchId, compactRevision, changedRevision, reason] = [NO_HEADER, 0n, 0n, 0n, ""];
  let [created, canceled] = [false, false];
  const changed: Buffer[] = [];
  while (reader.next()) {
    if (reader.field === 1) header = readHeader(reader.message());
    else if (reader.field === 2) watchId = reader.int();
    else if (reader.field === 3) created = reader.bool();
    else if (reader.field === 4) canceled = reader.bool();
    else if (reader.field === 5) compactRevision = reader.natural();
    else if (reader.field === 6) reason = reader.text();
    else if (reader.field === 11) {
      const kv = readChanged(reader.message());
      if (kv !== undefined) changed.push(kv.key);
      changedRevision = kv?.modRevision ?? changedRevision;
    } else reader.skip();
    if (changed.length > CHANGED_MAX) throw new MalformedError(`more than ${CHANGED_MAX} changes at once`);
  }
  return { header, watchId, created, canceled, compactRevision, reason, changed, changedRevision };
}

/** The server has kept back what was not asked for. */
function readChanged(reader: Reader): KeyValue | undefined {
  let kv: KeyValue | undefined;
  while (reader.next()) {
    if (reader.field === 2) kv = readKeyValue(reader.message());
    else reader.skip();
  }
  return kv;
}
