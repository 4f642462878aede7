/** One claim, asked for again by another process: the same lease, and never a second one beside it. */
import { readdirSync, readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { FileBackend } from "../../../src/backends/file/index.ts";
import type { Claim } from "../../../src/contract/backend.ts";
import { claim, eventually, granted, grantedAtLast, Scratch, sleep } from "./peers.ts";

let scratch: Scratch;
beforeEach(() => {
  scratch = new Scratch();
});
afterEach(() => scratch.end());

/** As a process of its own: what it knows, it knows from the directory. */
function another(): FileBackend {
  return scratch.open({ detached: true });
}

/** The one lease file of a claim. */
function fileOf({ id }: Claim): string {
  const [name, ...others] = readdirSync(join(scratch.dir, "o")).filter((file) => file.startsWith(id));
  expect(others).toEqual([]);
  return join(scratch.dir, "o", name!);
}

const inode = (wish: Claim): number => statSync(fileOf(wish)).ino;

describe.each([
  ["exclusive", {}],
  ["shared", { mode: "shared" }],
  ["of a limit", { limit: 3 }],
  ["with a lock delay", { lockDelayMs: 1000 }],
] as const)("a claim that holds, asked for again by another process: %s", (_what, change) => {
  test.each([true, false])("is answered with its lease, in its own file (queues: %s)", async (queues) => {
    const wish = claim(change);
    const { fence, run } = await granted(another(), wish);
    const before = inode(wish);
    const second = another();
    expect(await second.attempt({ ...wish, queues, holder: "test:2" })).toMatchObject({ granted: true, fence, run });
    expect(inode(wish)).toBe(before);
    expect((await second.query("")).held).toHaveLength(1);
    expect((await second.query("")).pending).toEqual([]);
    expect(await another().renew([wish])).toMatchObject([{ held: true }]);
    expect(await another().release(wish)).toBe("held");
    expect((await second.query("")).held).toEqual([]);
    expect(readdirSync(join(scratch.dir, "o"))).toEqual([]);
  });
});

test("a claim that holds and is asked for again is renewed for others to see", async () => {
  const wish = claim({ ttlMs: 2000 });
  const { fence } = await granted(another(), wish);
  const again = await granted(another(), wish);
  expect(again.fence).toBe(fence);
  const third = another();
  const next = await grantedAtLast(third, claim());
  // The next holder got it after the end of the first, whose process then learns that.
  expect(next.fence).toBeGreaterThan(fence);
  expect(await another().renew([wish])).toMatchObject([{ held: false }]);
  expect(await another().release(wish)).toBe("absent");
});

test("a claim that is asked for again with another ttl has that one", async () => {
  const wish = claim({ ttlMs: 30_000 });
  const { fence } = await granted(another(), wish);
  expect(await another().attempt({ ...wish, ttlMs: 3_600_000 })).toMatchObject({ granted: true, fence });
  const [held] = (await another().query("")).held;
  expect(held!.remainingMs).toBeGreaterThan(3_000_000);
  expect(await another().release(wish)).toBe("held");
});

test("a claim that is asked for again in another mode is refused, and stays what it is", async () => {
  const wish = claim({ mode: "shared" });
  await granted(another(), wish);
  await expect(another().attempt({ ...wish, mode: "exclusive" })).rejects.toThrow(/in use with other terms \(shared/);
  expect(await another().renew([wish])).toMatchObject([{ held: true }]);
});

test("a claim that waits and is asked for again keeps its position, with one ticket", async () => {
  const [first, wish, behind] = [claim(), claim(), claim()];
  const holder = another();
  await granted(holder, first);
  expect(await another().attempt(wish)).toMatchObject({ granted: false, position: 1 });
  expect(await another().attempt(behind)).toMatchObject({ granted: false, position: 2 });
  const second = another();
  expect(await second.attempt(wish)).toMatchObject({ granted: false, position: 1 });
  expect((await second.query("")).pending).toHaveLength(2);
  expect(await holder.release(first)).toBe("held");
  await grantedAtLast(second, wish);
  expect((await second.query("")).pending).toHaveLength(1);
  expect(await second.release(wish)).toBe("held");
  await grantedAtLast(another(), behind);
});

test("a lease whose lease file was replaced is neither renewed nor gone on with: others judge by the old one", async () => {
  const wish = claim();
  await granted(another(), wish);
  const path = fileOf(wish);
  const text = readFileSync(path, "utf8");
  writeFileSync(`${path}.new`, text);
  renameSync(`${path}.new`, path);
  expect(await another().renew([wish])).toMatchObject([{ held: false }]);
  expect(await another().attempt({ ...wish, queues: false })).toMatchObject({ granted: false });
});

test("a waiter that is killed around the hand-over of a lease that is to outlive it: all or nothing", async () => {
  for (let round = 0; round < 8; round++) {
    const [first, wish] = [claim(), claim({ ttlMs: 3_600_000 })];
    const holder = scratch.open();
    const waiter = await scratch.peer({ detached: true });
    await granted(holder, first);
    expect(await waiter.attempt(wish)).toMatchObject({ granted: false });
    let reported = false;
    // Its last call fails with the process.
    void grantedAtLast(waiter, wish).then(
      () => (reported = true),
      () => {},
    );
    await holder.release(first);
    // About as long as it takes the waiter to see it and write it down.
    await sleep(Math.random() * 6);
    await waiter.kill();
    // If the grant was reported, the lease lasts, dead or not. If not, it may last, and then it can be released.
    const lasts = (await another().release(wish)) === "held";
    if (reported) expect(lasts).toBe(true);
    const next = claim();
    await grantedAtLast(holder, next);
    expect(await holder.release(next)).toBe("held");
  }
});

test("a waiter that resumes the claim of another process keeps its position when that process is killed", async () => {
  const [first, wish, behind] = [claim(), claim(), claim()];
  const holder = scratch.open();
  await granted(holder, first);
  const dying = await scratch.peer({ detached: true });
  expect(await dying.attempt(wish)).toMatchObject({ granted: false, position: 1 });
  expect(await holder.attempt(behind)).toMatchObject({ granted: false, position: 2 });
  const second = another();
  expect(await second.attempt(wish)).toMatchObject({ granted: false, position: 1 });
  await dying.kill();
  await eventually("the claim waits at position 1 in its new process", async () => {
    const answer = await second.attempt(wish);
    const { pending } = await holder.query("");
    return !answer.granted && answer.position === 1 && pending.length === 2 ? true : undefined;
  });
  expect(await holder.attempt(behind)).toMatchObject({ granted: false, position: 2 });
  expect(await holder.release(first)).toBe("held");
  await grantedAtLast(second, wish);
  expect(await another().renew([wish])).toMatchObject([{ held: true }]);
});

test("a waiter whose process died is skipped, although a companion keeps that process's leases alive", async () => {
  const [first, behind] = [claim(), claim()];
  const holder = scratch.open();
  await granted(holder, first);
  const dying = await scratch.peer();
  await dying.call("alsoAlive", process.pid);
  expect(await dying.attempt(claim())).toMatchObject({ granted: false, position: 1 });
  expect(await holder.attempt(behind)).toMatchObject({ granted: false, position: 2 });
  await dying.kill();
  expect(await holder.release(first)).toBe("held");
  await grantedAtLast(holder, behind);
});

test("one claim that many processes ask for at once is one lease", async () => {
  const wish = claim();
  const peers = await Promise.all([1, 2, 3, 4].map(() => scratch.peer({ detached: true })));
  for (let round = 0; round < 20; round++) {
    const id = `${wish.id.slice(0, 18)}${String(round).padStart(4, "0")}`;
    const answers = await Promise.all(
      peers.map((peer) =>
        eventually("the claim is granted", async () => {
          const answer = await peer.attempt({ ...wish, id }).catch(() => undefined);
          return answer?.granted === true ? answer : undefined;
        }),
      ),
    );
    expect(new Set(answers.map(({ fence }) => fence)).size).toBe(1);
    expect(await another().renew([{ ...wish, id }])).toMatchObject([{ held: true }]);
    expect(await another().release({ ...wish, id })).toBe("held");
  }
});
