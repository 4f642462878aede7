/** Leases ended by force, kept for a day so that people can see who did it and why. */
import { createHash } from "node:crypto";
import { join } from "node:path";
import type { Forced } from "../../contract/backend.ts";
import { createFile, disk, remove, tryLink } from "./disk.ts";
import type { Moment } from "./clock.ts";
import { freshName, type Place } from "./directory.ts";
import { type ForcedRecord, parseForced } from "./records.ts";
import { seal } from "./checksum.ts";
import { isFull } from "./errors.ts";

const KEPT_MS = 24 * 3_600_000;
const TEXT_MAX = 2000;

export class ForcedRecords {
  readonly #place: Place;
  readonly #moment: Moment;

  constructor(place: Place, moment: Moment) {
    this.#place = place;
    this.#moment = moment;
  }

  record(name: string, fence: number, by: string, reason: string): ForcedRecord {
    return { name, fence, by: by.slice(0, TEXT_MAX), reason: reason.slice(0, TEXT_MAX), wallMs: this.#moment.wallMs() };
  }

  /** Idempotent: the state that ended the lease says it too, and whoever supersedes that state keeps it here first. */
  keep(records: readonly ForcedRecord[]): void {
    for (const record of records) {
      const aside = join(this.#place.trash, freshName());
      try {
        createFile(aside, seal(record));
        tryLink(aside, join(this.#place.forced, fileOf(record)));
      } catch (error) {
        // A full disk must not keep anybody from the lock.
        if (!isFull(error)) throw error;
      } finally {
        remove(aside);
      }
    }
  }

  /** Why the lease with this fence ended, if somebody ended it. */
  whyEnded(name: string, fence: number): string | undefined {
    const record = this.#read(fileOf({ name, fence }));
    return record?.name === name ? `broken by force by ${record.by}: ${record.reason}` : undefined;
  }

  list(prefix: string): Forced[] {
    const wallMs = this.#moment.wallMs();
    return (disk.list(this.#place.forced) ?? [])
      .map((file) => this.#read(file))
      .filter((record) => record !== undefined)
      .filter(({ name, wallMs: at }) => name.startsWith(prefix) && wallMs - at < KEPT_MS)
      .map(({ name, fence, by, reason, wallMs: at }) => ({
        name,
        fence: BigInt(fence),
        by,
        reason,
        agoMs: Math.max(0, wallMs - at),
      }))
      .toSorted((a, b) => b.agoMs - a.agoMs);
  }

  /** Removes what is too old to matter. */
  tidy(): void {
    for (const file of disk.list(this.#place.forced) ?? []) {
      const record = this.#read(file);
      if (record !== undefined && this.#moment.wallMs() - record.wallMs >= KEPT_MS)
        remove(join(this.#place.forced, file));
    }
  }

  /** `undefined`: it is gone, or not ours; it tells nothing then, and stays. */
  #read(file: string): ForcedRecord | undefined {
    if (!/^\d{1,16}-[0-9a-f]{16}$/.test(file)) return undefined;
    try {
      const record = parseForced(disk.read(join(this.#place.forced, file)) ?? "");
      return record !== undefined && fileOf(record) === file ? record : undefined;
    } catch {
      return undefined;
    }
  }
}

/** Two locks may have equal fences. */
function fileOf({ name, fence }: { readonly name: string; readonly fence: number }): string {
  return `${fence}-${createHash("sha256").update(name, "utf16le").digest("hex").slice(0, 16)}`;
}
