/** Records of force releases, kept for a while: who ended which lease, and why. */
import type { Forced } from "../../contract/backend.ts";

const KEEP_MS = 3_600_000;
const KEEP_MAX = 1000;

type ForcedRecord = Omit<Forced, "agoMs"> & { readonly atMs: number };

export class ForcedRecords {
  #records: ForcedRecord[] = [];

  add(record: ForcedRecord): void {
    this.#records = [...this.#records.slice(1 - KEEP_MAX), record];
  }

  list(prefix: string, nowMs: number): readonly Forced[] {
    this.#records = this.#records.filter(({ atMs }) => nowMs - atMs < KEEP_MS);
    return this.#records
      .filter(({ name }) => name.startsWith(prefix))
      .map(({ atMs, ...record }) => ({ ...record, agoMs: nowMs - atMs }));
  }
}
