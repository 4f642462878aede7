/** Force: ends a lease, or all of a lock for a claim that takes it, and records for a day who did it and why. */
import { createHash } from "node:crypto";
import { join } from "node:path";
import type { Forced } from "../../contract/backend.ts";
import { createFile, disk, remove, tryLink } from "./disk.ts";
import type { Clock } from "../../contract/clock.ts";
import type { LossReason } from "../../contract/loss.ts";
import { contains, taken, without } from "./admission.ts";
import type { Lock } from "./lock.ts";
import { isHead } from "./log.ts";
import { freshName, type DirectoryPaths } from "./directory.ts";
import { withChecksum } from "./checked-text.ts";
import { type ForcedRecord, type LockState, parseForced } from "./records.ts";
import { isFull, tooBusy, tooShort } from "./errors.ts";
import { ABANDONED_MAX, type LocalClaim } from "./local-claim.ts";

const KEPT_MS = 24 * 3_600_000;
const TEXT_MAX = 2000;
const TRIES_MAX = 10_000;

export class ForcedRecords {
  readonly #paths: DirectoryPaths;
  readonly #clock: Clock;

  constructor(paths: DirectoryPaths, clock: Clock) {
    this.#paths = paths;
    this.#clock = clock;
  }

  /** Ends the lease whose run contains the fence. `false`: there is none. */
  forceRelease(lock: Lock, fence: bigint, by: string, reason: string): boolean {
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      const head = lock.log.read(false);
      if (head === undefined) return false;
      const { state } = lock.query.liveState(head);
      const target = taken(state).find((place) => contains(place, fence));
      if (target === undefined) return false;
      const record = this.#record(lock.name, target.fence, by, reason);
      const next: LockState = { ...without(state, target.facts.id), forced: [record] };
      if (!isHead(lock.log.append(head, { state: () => next }))) continue;
      this.keep([record]);
      lock.wake(target.facts);
      lock.settle();
      return true;
    }
    throw tooBusy(lock.name);
  }

  /**
   * Ends all leases of the lock, and what is kept of them, and gives it to the claim, before all who wait. One entry does it. A claim
   * that holds the lock keeps it.
   */
  steal(lock: Lock, local: LocalClaim, reason: string): undefined {
    local.abandoned = 0;
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      if (local.abandoned > ABANDONED_MAX) throw tooShort(local.claim);
      const head = lock.log.read(true)!;
      if (lock.holds(local, head)) {
        if (lock.resume(local, head)) return;
        continue;
      }
      const { state } = lock.query.liveState(head);
      const rest = { ...state, holders: [], kept: [] };
      lock.checkLimit(local, rest, lock.query.waiters(head));
      const ended = taken(state);
      const forced = ended.map(({ fence }) => this.#record(lock.name, fence, local.claim.holder, reason));
      if (!lock.grant(local, head, { ...rest, forced })) continue;
      this.keep(forced);
      for (const { facts } of ended) lock.wake(facts);
      local.wanted = lock.isWanted(local);
      return;
    }
    throw tooBusy(lock.name);
  }

  /** Idempotent: the state that ended the lease says it too, and it is kept here before the next state replaces that one. */
  keep(records: readonly ForcedRecord[]): void {
    for (const record of records) {
      const aside = join(this.#paths.trash, freshName());
      try {
        createFile(aside, withChecksum(record));
        tryLink(aside, join(this.#paths.forced, fileOf(record)));
      } catch (error) {
        // A full disk must not make the lock unusable.
        if (!isFull(error)) throw error;
      } finally {
        remove(aside);
      }
    }
  }

  /** Why the lease with this fence ended, if it was ended by force. */
  whyEnded(name: string, fence: number): LossReason | undefined {
    const record = this.#read(fileOf({ name, fence }));
    return record?.name === name ? { kind: "forced", by: record.by, reason: record.reason } : undefined;
  }

  list(prefix: string): Forced[] {
    const records = (disk.list(this.#paths.forced) ?? []).map((file) => this.#read(file));
    return this.#shown(records.filter((record) => record?.name.startsWith(prefix)));
  }

  /** Those of one lock. `more`: what its newest state says, whether it is kept already or not. */
  of(name: string, more: readonly ForcedRecord[]): Forced[] {
    const files = (disk.list(this.#paths.forced) ?? []).filter((file) => file.endsWith(`-${digestOf(name)}`));
    const kept = files.map((file) => this.#read(file)).filter((record) => record?.name === name);
    return this.#shown([...kept, ...more.filter(({ fence }) => !kept.some((record) => record?.fence === fence))]);
  }

  /** Removes records that are too old. */
  removeOld(): void {
    for (const file of disk.list(this.#paths.forced) ?? []) {
      const record = this.#read(file);
      if (record !== undefined && this.#clock.wall() - record.wallMs >= KEPT_MS) remove(join(this.#paths.forced, file));
    }
  }

  #shown(records: readonly (ForcedRecord | undefined)[]): Forced[] {
    const nowMs = this.#clock.wall();
    return records
      .filter((record) => record !== undefined)
      .filter(({ wallMs }) => nowMs - wallMs < KEPT_MS)
      .map(({ name, fence, by, reason, wallMs }) => {
        return { name, fence: BigInt(fence), by, reason, agoMs: Math.max(0, nowMs - wallMs) };
      })
      .toSorted((a, b) => b.agoMs - a.agoMs);
  }

  #record(name: string, fence: number, by: string, reason: string): ForcedRecord {
    return { name, fence, by: by.slice(0, TEXT_MAX), reason: reason.slice(0, TEXT_MAX), wallMs: this.#clock.wall() };
  }

  /** `undefined`: the record is gone, or foreign: then it is ignored, and stays. */
  #read(file: string): ForcedRecord | undefined {
    if (!/^\d{1,16}-[0-9a-f]{16}$/.test(file)) return undefined;
    try {
      const record = parseForced(disk.read(join(this.#paths.forced, file)) ?? "");
      return record !== undefined && fileOf(record) === file ? record : undefined;
    } catch {
      return undefined;
    }
  }
}

/** Two locks may have equal fences. */
function fileOf({ name, fence }: { readonly name: string; readonly fence: number }): string {
  return `${fence}-${digestOf(name)}`;
}

function digestOf(name: string): string {
  return createHash("sha256").update(name, "utf16le").digest("hex").slice(0, 16);
}
