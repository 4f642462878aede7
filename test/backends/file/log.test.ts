/** The log of one lock: one winner per entry, epochs that follow each other, and what a power cut or another program leaves. */
import {
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { systemClock } from "../../../src/contract/clock.ts";
import type { LockBackendError } from "../../../src/contract/errors.ts";
import { disk } from "../../../src/backends/file/disk.ts";
import { prepareDirectory } from "../../../src/backends/file/directory-checks.ts";
import { type Head, LockLog } from "../../../src/backends/file/log.ts";
import { pathsIn } from "../../../src/backends/file/directory.ts";
import { withChecksum } from "../../../src/backends/file/checked-text.ts";
import { type Epoch, FREE } from "../../../src/backends/file/records.ts";
import { claim, granted, rewrite, Scratch } from "./peers.ts";

let scratch: Scratch;
beforeEach(() => {
  scratch = new Scratch();
});
afterEach(() => scratch.end());

function open(name = "a lock"): LockLog {
  const paths = pathsIn(scratch.dir);
  prepareDirectory(paths);
  const log = { paths, clock: systemClock, entriesMax: 4, keepForced: () => {}, restored: () => {} };
  return new LockLog(name, log);
}

/** The directory of the newest epoch. */
function epoch(): string {
  const incarnation = join(scratch.dir, "l/_a%20lock", readdirSync(join(scratch.dir, "l/_a%20lock"))[0]!);
  const [newest] = readdirSync(incarnation).toSorted(
    (a, b) => Number.parseInt(b.slice(1), 10) - Number.parseInt(a.slice(1), 10),
  );
  return join(incarnation, newest!);
}

function head(log: LockLog): Head {
  return log.read(true)!;
}

describe("an append", () => {
  test("succeeds for only one of several processes that read the same head", () => {
    const logs = [open(), open(), open()];
    for (let round = 0; round < 20; round++) {
      const heads = logs.map(head);
      expect(new Set(heads.map(({ epoch: { id }, seq }) => `${id}/${seq}`)).size).toBe(1);
      const winners = logs.filter((log, at) => log.append(heads[at]!, { free: true }) !== undefined);
      expect(winners).toHaveLength(1);
    }
  });

  test("fails on an epoch that was retired long ago, however slow the process was", () => {
    const [slow, fast] = [open(), open()];
    const stale = head(slow);
    for (let round = 0; round < 30; round++) expect(fast.append(head(fast), { free: true })).toBeDefined();
    expect(slow.append(stale, { free: true })).toBeUndefined();
    expect(head(slow)).toEqual(head(fast));
  });

  test("fails on a lock that was removed and made again", () => {
    const [slow, fast] = [open(), open()];
    const stale = head(slow);
    expect(fast.retire(head(fast))).toBe(true);
    head(fast);
    expect(slow.append(stale, { free: true })).toBeUndefined();
    expect(head(slow).incarnation).toBe(head(fast).incarnation);
  });

  test("leaves no second epoch when it prepared one too late", () => {
    const [slow, fast] = [open(), open()];
    for (let round = 0; round < 4; round++) expect(fast.append(head(fast), { free: true })).toBeDefined();
    const full = head(slow);
    expect(full.seq).toBe(4);
    for (let round = 0; round < 11; round++) expect(fast.append(head(fast), { free: true })).toBeDefined();
    expect(slow.append(full, { free: true })).toBeUndefined();
    expect(readdirSync(head(fast).incarnation)).toHaveLength(1);
  });

  test("keeps the state over an epoch's end", () => {
    const log = open();
    const states: unknown[] = [];
    for (let round = 0; round < 12; round++) {
      const kept = { ...FREE, forced: [] };
      states.push(log.append(head(log), { state: () => kept }));
      expect(head(open()).state).toEqual(kept);
    }
    expect(states).not.toContain(undefined);
  });
});

describe("an epoch that was chosen", () => {
  test("is finished by the next process that sees it, when the chooser died before", async () => {
    const backend = scratch.open({ entriesMax: 2 });
    const wish = claim();
    const before = await granted(backend, wish);
    await backend.release(wish);
    const again = claim();
    await granted(backend, again);
    // As it is after the choice, and before its final name: the old epoch still there, its last entry the new one's first.
    const newest = epoch();
    const aside = newest.replace(/\/e([^/]*)$/, "/n$1");
    renameSync(newest, aside);
    const old = newest.replace(/e\d+-[^/]*$/, "e1-old");
    mkdirSync(old);
    for (const file of ["0", "2"]) writeFileSync(join(old, file), readFileSync(join(aside, "0")));
    rewrite<Epoch>(join(old, "0"), (first) => ({ ...first, id: first.id.replace(/^\d+/, "1") }));
    for (const file of ["f", "1"]) writeFileSync(join(old, file), withChecksum(FREE));
    const survivor = scratch.open();
    expect(await survivor.attempt(claim({ queues: false }))).toMatchObject({ granted: false });
    expect(epoch()).toBe(newest);
    expect((await survivor.query("")).held[0]!.fence).toBeGreaterThan(before.fence);
  });
});

describe("after a power cut", () => {
  test("an epoch whose first entry is empty is left for a new one, and fences go on rising", async () => {
    const backend = scratch.open();
    const wish = claim();
    const before = await granted(backend, wish);
    await backend.release(wish);
    // An epoch's name ends with a tag of its boot.
    const lost = epoch().replace(/.{8}$/, "another0");
    renameSync(epoch(), lost);
    truncateSync(join(lost, "0"));
    const after = await granted(scratch.open(), claim());
    expect(after.fence).toBeGreaterThan(before.fence + BigInt(before.run) - 1n);
  });

  test("a lock whose free file is gone can still be released", async () => {
    const backend = scratch.open();
    const wish = claim();
    await granted(backend, wish);
    rmSync(join(epoch(), "f"));
    expect(await backend.release(wish)).toBe("held");
    await granted(scratch.open(), claim());
  });

  test("another boot starts a new epoch above the clock, since the newest entries may have been lost", async () => {
    const backend = scratch.open();
    const wish = claim();
    await granted(backend, wish);
    await backend.release(wish);
    const old = epoch();
    rewrite<Epoch>(join(old, "0"), (first) => ({ ...first, boot: "the boot before" }));
    const wallUs = BigInt(Date.now()) * 1000n;
    const { fence } = await granted(scratch.open(), claim());
    expect(epoch()).not.toBe(old);
    expect(fence).toBeGreaterThan(wallUs - 10_000n);
  });
});

/** There was no power cut since this epoch was made, so nothing in it is lost: what is empty was emptied. */
describe("S143: within one boot, an entry that was emptied is not taken for a free lock", () => {
  test.each([
    ["the first", "0"],
    ["the holder's", "1"],
  ])("%s entry", async (_what, file) => {
    const [backend, held] = [scratch.open(), claim()];
    await granted(backend, held);
    truncateSync(join(epoch(), file));
    const rival = await scratch
      .open()
      .attempt(claim())
      .catch((cause: unknown) => cause);
    expect(rival).toMatchObject({ name: "LockBackendError", fatal: true });
    expect(await backend.renew([held])).toMatchObject([{ held: true }]);
    expect(await backend.release(held)).toBe("held");
  });
});

describe("what this backend would never write", () => {
  test.each([
    ["text", "hello"],
    ["a list", "[]"],
    ["a state with a wrong holder", '{"kind":"state","holders":[{"fence":1}],"kept":[],"forced":[]}'],
    ["a lease file with a path for an id", '{"kind":"owner","id":"../../etc/passwd"}'],
  ])("is not believed: %s", async (_what, text) => {
    const backend = scratch.open();
    const wish = claim();
    await granted(backend, wish);
    await backend.release(wish);
    const next = readdirSync(epoch()).filter((file) => /^\d+$/.test(file)).length;
    writeFileSync(join(epoch(), String(next)), text);
    const error = (await scratch
      .open()
      .attempt(claim())
      .catch((cause: unknown) => cause)) as LockBackendError;
    expect(error).toMatchObject({ name: "LockBackendError", fatal: true });
    expect(error.message).toContain(join(epoch(), String(next)));
  });
});

test("a lease file that has no links left is replaced by another", async () => {
  const backend = scratch.open();
  // One lease file serves them all until it has as many links as ext4 allows; here the limit is made smaller.
  const real = { ...disk };
  disk.link = (from, to) => {
    if ((statSync(from, { throwIfNoEntry: false })?.nlink ?? 0) >= 4)
      throw Object.assign(new Error("EMLINK"), { code: "EMLINK" });
    real.link(from, to);
  };
  try {
    for (let round = 0; round < 12; round++) {
      const wish = claim({ name: `lock ${round}` });
      await granted(backend, wish);
      expect(await backend.release(wish)).toBe("held");
    }
  } finally {
    Object.assign(disk, real);
  }
});
