/** What the store itself said, beside what query() made of it: to find deadlocks in a snapshot without asking a second time. */
import type { Snapshot } from "../contract/backend.ts";
import type { LocksSnapshot } from "./api.ts";

export interface Stored {
  /** The backend's name. */
  readonly backend: string;
  readonly snapshot: Snapshot;
}

const storedOf = new WeakMap<object, Stored>();

export function withStored(shown: LocksSnapshot, stored: Stored): LocksSnapshot {
  storedOf.set(shown, stored);
  return shown;
}

/** Absent: the snapshot is not one of query(). */
export function storedSnapshot(shown: LocksSnapshot): Stored | undefined {
  return storedOf.get(shown);
}
