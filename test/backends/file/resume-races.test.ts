/** One claim that two processes ask for at once: what one does between two steps of the other. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Claim } from "../../../src/contract/backend.ts";
import type { FileBackend } from "../../../src/backends/file/index.ts";
import { type Disk, disk } from "../../../src/backends/file/disk.ts";
import { FakeClock } from "../../../src/testing/fake-clock.ts";
import { claim, granted, Scratch } from "./peers.ts";

const real: Disk = { ...disk };

let scratch: Scratch;
beforeEach(() => {
  scratch = new Scratch();
});
afterEach(async () => {
  Object.assign(disk, real);
  await scratch.end();
});

interface Point {
  /** After the n-th call of the disk that concerns a file of the claim, or before it. */
  readonly nth: number;
  readonly before?: boolean;
  readonly claim: Claim;
  /** Also those that concern its lock. */
  readonly all?: boolean;
}

/** Runs `act` once, at that point, and `later` after this call and each that follows. Returns whether there were so many calls. */
function atCall(
  { nth, before = false, claim: { id }, all = false }: Point,
  act: () => unknown,
  later?: () => unknown,
): () => boolean {
  const files = all ? scratch.dir : `${scratch.dir}/o/${id}`;
  let calls = 0;
  let acting = false;
  const doing = (what: (() => unknown) | undefined): void => {
    acting = true;
    void what?.();
    acting = false;
  };
  for (const name of Object.keys(real) as (keyof Disk)[]) {
    const call = real[name] as (...args: never[]) => unknown;
    Object.assign(disk, {
      [name]: (...args: never[]) => {
        if (acting || !args.some((arg) => String(arg).startsWith(files))) return call(...args);
        calls++;
        if (calls === nth && before) doing(act);
        const answer = call(...args);
        if (calls === nth && !before) doing(act);
        if (calls >= nth) doing(later);
        return answer;
      },
    });
  }
  return () => calls >= nth;
}

describe.each<[string, Partial<Claim>]>([
  ["exclusive", {}],
  ["shared", { mode: "shared" }],
])("S168: one claim that two processes ask for at once (%s)", (_what, change) => {
  test.each(["nothing", "a lease that is over"])(
    "has one lease, which both can renew, wherever one is when the other asks; before it there was %s",
    async (before) => {
      for (let nth = 1; ; nth++) {
        const clock = new FakeClock();
        const open = (): FileBackend => scratch.open({ detached: true, hints: "poll", clock });
        const [first, second] = [open(), open()];
        const wish = claim({ ...change, name: `lock ${nth}` });
        if (before !== "nothing") {
          await granted(open(), wish);
          clock.block(2 * wish.ttlMs);
        }
        let other: ReturnType<FileBackend["attempt"]> | undefined;
        const happened = atCall({ nth, claim: wish }, () => {
          clock.block(wish.ttlMs / 2);
          other = second.attempt(wish);
        });
        const { fence, fromMs } = await granted(first, wish);
        Object.assign(disk, real);
        if (!happened()) {
          expect(nth).toBeGreaterThan(3);
          return;
        }
        expect(await other, `call ${nth}`).toMatchObject({ granted: true, fence });
        // What one of them learns is what all others see.
        const [held] = (await open().query(wish.name)).held;
        expect(clock.now() + held!.remainingMs, `call ${nth}`).toBeGreaterThanOrEqual(fromMs! + wish.ttlMs);
        expect(await first.renew([wish]), `call ${nth}`).toMatchObject([{ held: true }]);
        expect(await open().renew([wish]), `call ${nth}`).toMatchObject([{ held: true }]);
        expect(await open().release(wish)).toBe("held");
        expect((await open().query(wish.name)).held).toEqual([]);
      }
    },
  );

  test("that has ended, while one of them stood still, is a new lease: the old one is not revived", async () => {
    for (let nth = 1; ; nth++) {
      const clock = new FakeClock();
      const open = (): FileBackend => scratch.open({ detached: true, hints: "poll", clock });
      const [first, second] = [open(), open()];
      const wish = claim({ ...change, name: `lock ${nth}` });
      let other: ReturnType<FileBackend["attempt"]> | undefined;
      const happened = atCall({ nth, claim: wish }, () => {
        clock.block(2 * wish.ttlMs);
        other = second.attempt(wish);
        clock.block(2 * wish.ttlMs);
      });
      const { fence, fromMs } = await granted(first, wish);
      Object.assign(disk, real);
      if (!happened()) {
        expect(nth).toBeGreaterThan(3);
        return;
      }
      // It had the lock before it stood still, and its answer says that its time is over.
      if (fromMs! + wish.ttlMs <= clock.now()) continue;
      const ended = await other!;
      if (!ended.granted) expect.fail("no other claim wants the lock");
      expect(fence, `call ${nth}`).toBeGreaterThan(ended.fence);
      expect((await open().query(wish.name)).held, `call ${nth}`).toMatchObject([{ fence }]);
    }
  });
});

describe("S168: a lease that one process was given by a claim stays, whatever another does with the same claim", () => {
  test.each([
    ["asks again after its time was over", "after"],
    ["is amid its release", "before"],
  ])("one that %s (%s each call of the disk)", async (what, when) => {
    const releases = what === "is amid its release";
    let given = 0;
    for (let nth = 1; ; nth++) {
      const clock = new FakeClock();
      const open = (): FileBackend => scratch.open({ detached: true, hints: "poll", clock });
      const [first, second, third] = [open(), open(), open()];
      // Others judge a reader's lease by its file, and not by an entry that is a link to it.
      const wish = claim({ mode: "shared", name: `lock ${nth}` });
      const { fence } = await granted(first, wish);
      if (!releases) clock.block(2 * wish.ttlMs);
      let other: ReturnType<FileBackend["attempt"]> | undefined;
      const rivals: ReturnType<FileBackend["attempt"]>[] = [];
      const happened = atCall(
        { nth, before: when === "before", claim: wish },
        () => (other = second.attempt(wish)),
        () => rivals.push(third.attempt(claim({ name: wish.name, queues: false }))),
      );
      await (releases ? first.release(wish) : first.attempt(wish));
      Object.assign(disk, real);
      if (!happened()) break;
      const answer = await other!;
      // The old lease, which ends with the release.
      if (!answer.granted || answer.fence === fence) continue;
      given++;
      for (const rival of rivals) expect(await rival, `call ${nth}`).toMatchObject({ granted: false });
      expect(await second.renew([wish]), `call ${nth}`).toMatchObject([{ held: true }]);
    }
    expect(given).toBeGreaterThan(0);
  });
});

test("S168: a renewal stays, whatever another process that changes the ttl of the same lease does meanwhile", async () => {
  for (let nth = 1; ; nth++) {
    const clock = new FakeClock();
    const open = (): FileBackend => scratch.open({ detached: true, hints: "poll", clock });
    const wish = claim({ name: `lock ${nth}` });
    await granted(open(), wish);
    const longer = { ...wish, ttlMs: 5 * wish.ttlMs };
    const second = open();
    let other: ReturnType<FileBackend["renew"]> | undefined;
    const happened = atCall({ nth, before: true, claim: wish }, () => {
      clock.block(wish.ttlMs / 2);
      other = second.renew([longer]);
    });
    expect(await open().renew([longer])).toMatchObject([{ held: true }]);
    Object.assign(disk, real);
    if (!happened()) {
      expect(nth).toBeGreaterThan(3);
      return;
    }
    const [renewal] = await other!;
    if (renewal?.held !== true) expect.fail("its time is not over");
    const [held] = (await open().query(wish.name)).held;
    expect(clock.now() + held!.remainingMs, `call ${nth}`).toBeGreaterThanOrEqual(renewal.fromMs! + longer.ttlMs);
    expect(await second.renew([longer]), `call ${nth}`).toMatchObject([{ held: true }]);
  }
});

describe("S168: a renewal for a longer ttl stays, whatever another process does meanwhile that asks for a shorter one", () => {
  const [short, long] = [{ ttlMs: 60_000 }, { ttlMs: 600_000 }];

  test.each([
    ["renews it", "is amid that", short, long],
    ["renews it", "does all of that meanwhile", long, short],
    ["asks for it again", "is amid that", short, long],
    ["asks for it again", "does all of that meanwhile", long, short],
  ])("one that %s, and %s", async (what, _when, first, second) => {
    for (let nth = 1; ; nth++) {
      const clock = new FakeClock();
      const open = (): FileBackend => scratch.open({ detached: true, hints: "poll", clock });
      const wish = claim({ ...short, name: `lock ${nth}` });
      // Both know the lease by its first ttl.
      const [one, two] = [open(), open()];
      await granted(one, wish);
      expect(await two.renew([wish])).toMatchObject([{ held: true }]);
      let other: ReturnType<FileBackend["renew"]> | undefined;
      const happened = atCall({ nth, before: true, all: true, claim: wish }, () => {
        other = two.renew([{ ...wish, ...second }]);
      });
      if (what === "renews it") expect(await one.renew([{ ...wish, ...first }])).toMatchObject([{ held: true }]);
      else await granted(one, { ...wish, ...first });
      Object.assign(disk, real);
      if (!happened()) {
        expect(nth).toBeGreaterThan(5);
        return;
      }
      expect(await other, `call ${nth}`).toMatchObject([{ held: true }]);
      const [held] = (await open().inspect(wish.name)).held;
      expect(held?.remainingMs, `call ${nth}`).toBeGreaterThanOrEqual(long.ttlMs);
    }
  });

  test("one that had read the old end before, and writes its own when the longer one is not in the log yet", async () => {
    const clock = new FakeClock();
    const open = (): FileBackend => scratch.open({ detached: true, hints: "poll", clock });
    const wish = claim(short);
    await granted(open(), wish);
    const [file] = readdirSync(join(scratch.dir, "o"));
    const path = join(scratch.dir, "o", file!);
    const endMs = real.times(path)!.mtimeMs;
    disk.link = (from, to) => {
      real.utimes(path, endMs);
      real.link(from, to);
    };
    expect(await open().renew([{ ...wish, ...long }])).toMatchObject([{ held: true }]);
    Object.assign(disk, real);
    expect((await open().inspect(wish.name)).held[0]?.remainingMs).toBeGreaterThanOrEqual(long.ttlMs);
  });

  test("one that knows both ttls, and an older end", async () => {
    const clock = new FakeClock();
    const [one, two] = [0, 1].map(() => scratch.open({ detached: true, hints: "poll", clock }));
    const wish = claim(short);
    await granted(one!, wish);
    expect(await two!.renew([{ ...wish, ...long }])).toMatchObject([{ held: true }]);
    clock.block(long.ttlMs / 2);
    expect(await one!.renew([{ ...wish, ...long }])).toMatchObject([{ held: true }]);
    expect(await two!.renew([wish])).toMatchObject([{ held: true }]);
    expect((await one!.inspect(wish.name)).held[0]?.remainingMs).toBeGreaterThanOrEqual(long.ttlMs);
  });
});
