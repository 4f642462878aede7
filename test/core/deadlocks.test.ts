/** Deadlocks: who waits for whom, what is reported, and who rejects itself. */
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { Backend } from "../../src/contract/backend.ts";
import type { Locks, LocksOptions } from "../../src/core/api.ts";
import type { DeadlockEvent } from "../../src/contract/events.ts";
import { LockDeadlockError, LockTimeoutError } from "../../src/contract/errors.ts";
import { byLock, DeadlockGraph } from "../../src/core/deadlock-graph.ts";
import { createLocks } from "../../src/core/locks.ts";
import { Scope } from "../../src/core/reentry.ts";
import { memory } from "../../src/backends/memory/index.ts";
import { subscribe } from "../../src/core/subscribe.ts";
import { failure, gate, type Stage, stage } from "./scripted.ts";
// Loaded now: a dynamic import takes no simulated time.
import "../../src/core/deadlocks.ts";
import "../../src/core/extend.ts";

const PATIENT = { wait: Infinity } as const;

let events: DeadlockEvent[] = [];
let unsubscribe = (): void => {};
beforeEach(() => {
  events = [];
  unsubscribe = subscribe("deadlock", (event) => void events.push(event));
});
afterEach(() => unsubscribe());

/** Runs simulated time in small steps, so that what is loaded and asked for has its turn in between. */
async function pass({ clock }: Stage, ms: number, stepMs = 50): Promise<void> {
  for (let at = 0; at < ms; at += stepMs) {
    await clock.advance(stepMs);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** Who holds what and waits for what, without the numbers. */
function inShort(event: DeadlockEvent | undefined): readonly string[] {
  const said = event?.members.map(
    ({ holder, holds, waitsFor }) => `${holder} ${holds.map(({ name }) => name).join("+")}>${waitsFor}`,
  );
  return (said ?? []).toSorted();
}

/** One process after the other, each with a name of its own. */
function processes(at: Stage, options: LocksOptions = {}): (index: number) => Locks {
  const all: Locks[] = [];
  return (index) => (all[index] ??= at.other({ holder: `p${index}`, ...options }));
}

/** Each takes its first lock, and when all have, its second. */
function nest(
  locks: Locks,
  outer: string,
  inner: string,
  begun: Promise<void>,
  options: object = PATIENT,
): Promise<string> {
  return locks.run(outer, { ...options, wait: Infinity }, async () => {
    await begun;
    return await locks.run(inner, options, () => `${outer}${inner}`);
  });
}

describe.each([
  ["in one process", 0],
  ["in several processes", 1],
])("a circle %s", (_, apart) => {
  test("of two is reported once, with who holds what and waits for what", async () => {
    const at = stage();
    const [p, begun] = [processes(at), gate()];
    const all = [
      nest(p(0), "a", "b", begun.opened, { wait: "8s" }),
      nest(p(apart), "b", "a", begun.opened, { wait: "9s" }),
    ];
    const first = failure(all[0]!);
    await pass(at, 500);
    begun.open();
    await pass(at, 4000);
    expect(events.length).toBe(apart + 1);
    expect(inShort(events[0])).toEqual([`p0 a>b`, `p${apart} b>a`]);
    expect(events[0]).toMatchObject({ backend: "memory", rejects: false });
    expect(events[0]?.description).toMatch(/p0 holds "a" \(fence \d+\) and waits for "b"/u);
    await pass(at, 5000);
    const error = await first;
    expect(error).toBeInstanceOf(LockTimeoutError);
    expect((error as unknown as LockTimeoutError).deadlock?.members.length).toBe(2);
    expect(error.message).toContain('p0 holds "a"');
    expect(await all[1]).toBe("ba");
    expect(events.length).toBe(apart + 1);
    expect(at.store.view()).toEqual([]);
  });

  test("of three is reported", async () => {
    const at = stage();
    const [p, begun] = [processes(at), gate()];
    const all = [
      nest(p(0), "a", "b", begun.opened, { wait: "8s" }),
      nest(p(apart), "b", "c", begun.opened),
      nest(p(apart * 2), "c", "a", begun.opened),
    ];
    const first = failure(all[0]!);
    await pass(at, 100);
    begun.open();
    await pass(at, 4000);
    expect(inShort(events[0])).toEqual(["p0 a>b", `p${apart} b>c`, `p${apart * 2} c>a`]);
    await pass(at, 6000);
    expect(await first).toBeInstanceOf(LockTimeoutError);
    expect(await Promise.all(all.slice(1))).toEqual(["bc", "ca"]);
  });

  test('with deadlock: "reject" exactly one rejects, the one that came last, and the others go on', async () => {
    const at = stage();
    const p = processes(at, { deadlock: "reject" });
    const begun = [gate(), gate(), gate()];
    const all = [
      nest(p(0), "a", "b", begun[0]!.opened),
      nest(p(apart), "b", "c", begun[1]!.opened),
      nest(p(apart * 2), "c", "a", begun[2]!.opened),
    ];
    const settled = Promise.allSettled(all);
    await pass(at, 100);
    // In this order they are queued.
    for (const index of [2, 0, 1]) {
      begun[index]!.open();
      await pass(at, 50);
    }
    await pass(at, 6000);
    const results = await settled;
    expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
    const { reason } = results[1] as PromiseRejectedResult;
    expect(reason).toBeInstanceOf(LockDeadlockError);
    expect(reason).toMatchObject({ code: "ERR_LOCK_DEADLOCK", lock: "c" });
    expect((reason as LockDeadlockError).deadlock.members.length).toBe(3);
    expect(events.filter(({ rejects }) => rejects).length).toBe(1);
    expect(at.store.view()).toEqual([]);
  });
});

describe("what is a deadlock", () => {
  test("a reader behind a writer, who waits for a reader that waits for the first: a circle through the queue", async () => {
    const at = stage();
    const [p, begun] = [processes(at), gate()];
    const shared = { mode: "shared", wait: Infinity } as const;
    const reader = p(0).run("l", shared, async () => {
      await begun.opened;
      await p(0).run("m", { wait: "9s" }, () => {});
    });
    await pass(at, 50);
    const other = p(2).run("m", async () => {
      await pass(at, 100);
      await p(2).run("l", shared, () => {});
    });
    await pass(at, 50);
    const writer = p(1).run("l", PATIENT, () => "wrote");
    await pass(at, 200);
    begun.open();
    const first = failure(reader);
    await pass(at, 4000);
    expect(inShort(events[0])).toEqual(["p0 l>m", "p1 >l", "p2 m>l"]);
    expect(events[0]?.description).toContain('p1 is ahead in the queue for "l"');
    await pass(at, 8000);
    expect(await first).toBeInstanceOf(LockTimeoutError);
    expect(await writer).toBe("wrote");
    await other;
  });

  test("readers hold up a writer if one of them waits for it; a reader that waits for readers is none", async () => {
    const at = stage();
    const [p, begun] = [processes(at), gate()];
    const shared = { mode: "shared", wait: Infinity } as const;
    const done = gate();
    const free = p(0).run("l", shared, () => done.opened);
    const reader = p(1).run("l", shared, async () => {
      await begun.opened;
      await p(1).run("m", { wait: "9s" }, () => {});
    });
    const writer = nest(p(2), "m", "l", begun.opened);
    await pass(at, 100);
    begun.open();
    const first = failure(reader);
    await pass(at, 4000);
    expect(inShort(events[0])).toEqual(["p1 l>m", "p2 m>l"]);
    await pass(at, 8000);
    expect(await first).toBeInstanceOf(LockTimeoutError);
    done.open();
    await Promise.all([free, writer]);
  });

  test("with a limit of 2 none while one of the holders is free; one when both wait", async () => {
    const at = stage();
    const [p, begun, second] = [processes(at), gate(), gate()];
    const two = { limit: 2, wait: Infinity } as const;
    const inner = (index: number, opened: Promise<void>) => async (): Promise<void> => {
      await opened;
      await p(index).run("m", { wait: "30s" }, () => {});
    };
    const holders = [p(0).run("l", two, inner(0, begun.opened)), p(1).run("l", two, inner(1, second.opened))];
    const waiter = p(2).run("m", PATIENT, async () => {
      await begun.opened;
      await p(2).run("l", { limit: 2, wait: "20s" }, () => {});
    });
    const failed = failure(waiter);
    await pass(at, 100);
    begun.open();
    await pass(at, 6000);
    expect(events).toEqual([]);
    second.open();
    await pass(at, 8000);
    expect(inShort(events[0])).toEqual(["p0 l>m", "p1 l>m", "p2 m>l"]);
    await pass(at, 10_000);
    expect(await failed).toBeInstanceOf(LockTimeoutError);
    await Promise.all(holders);
  });

  test("a chain without a circle is none, however long it lasts", async () => {
    const at = stage();
    const [p, begun, done] = [processes(at), gate(), gate()];
    const last = p(3).run("d", PATIENT, () => done.opened);
    const all = [0, 1, 2].map((index) => nest(p(index), "abc"[index]!, "bcd"[index]!, begun.opened));
    await pass(at, 100);
    begun.open();
    await pass(at, 40_000);
    expect(events).toEqual([]);
    done.open();
    await pass(at, 1000);
    await Promise.all([last, ...all]);
  });

  test("a circle that is gone at the second look is none", async () => {
    const at = stage();
    const [p, begun, done] = [processes(at, { deadlock: "reject" }), gate(), gate()];
    const first = p(0).run("a", PATIENT, async () => {
      await begun.opened;
      await p(0).run("b", PATIENT, () => done.opened);
    });
    // It gives up between the looks of the last, which come at 1.0 s and 1.5 s at the earliest: the first goes on.
    const second = failure(nest(p(1), "b", "c", begun.opened, { wait: 1300 }));
    const last = nest(p(2), "c", "a", begun.opened);
    await pass(at, 100);
    begun.open();
    await pass(at, 5000);
    expect(await second).toBeInstanceOf(LockTimeoutError);
    expect(events).toEqual([]);
    done.open();
    await pass(at, 1000);
    await first;
    expect(await last).toBe("ca");
  });

  test("a group that has one lock and waits for the next is part of a circle with nested calls", async () => {
    const at = stage();
    const [p, begun] = [processes(at), gate()];
    const nested = nest(p(0), "b", "a", begun.opened, { wait: "9s" });
    await pass(at, 100);
    const group = p(1).run(["b", "a"], PATIENT, () => "both");
    await pass(at, 100);
    begun.open();
    const first = failure(nested);
    await pass(at, 4000);
    expect(inShort(events[0])).toEqual(["p0 b>a", "p1 a>b"]);
    await pass(at, 8000);
    expect(await first).toBeInstanceOf(LockTimeoutError);
    expect(await group).toBe("both");
  });

  test("a lock that is entered again is no lock that one waits for", async () => {
    const at = stage();
    const [p, begun, done] = [processes(at), gate(), gate()];
    const held = p(1).run("b", PATIENT, () => done.opened);
    const again = p(0).run("a", async () => {
      await p(0).run("a", () => nest(p(0), "a", "b", begun.opened));
    });
    begun.open();
    await pass(at, 10_000);
    expect(events).toEqual([]);
    done.open();
    await pass(at, 1000);
    await Promise.all([held, again]);
  });

  test("a lease from acquire() has no context: it is in no circle", async () => {
    const at = stage();
    const p = processes(at);
    const [a, b] = [await p(0).acquire("a"), await p(1).acquire("b")];
    const all = [failure(p(0).acquire("b", { wait: "5s" })), failure(p(1).acquire("a", { wait: "5s" }))];
    await pass(at, 6000);
    for (const error of await Promise.all(all)) expect(error).toBeInstanceOf(LockTimeoutError);
    expect(events).toEqual([]);
    await Promise.all([a.release(), b.release()]);
  });
});

test("who gives up later was in no deadlock, if that had ended by the last look", async () => {
  const at = stage();
  const [p, begun, done] = [processes(at), gate(), gate()];
  const first = failure(
    p(0).run("a", async () => {
      await begun.opened;
      await p(0).run("b", { wait: "60s" }, () => {});
    }),
  );
  const second = p(1).run("b", async () => {
    await begun.opened;
    const tried = await failure(p(1).run("a", { wait: "5s" }, () => {}));
    await done.opened;
    return tried;
  });
  await pass(at, 100);
  begun.open();
  await pass(at, 61_000);
  const late = await first;
  expect(late).toBeInstanceOf(LockTimeoutError);
  expect(late["deadlock"]).toBeUndefined();
  done.open();
  await pass(at, 100);
  expect((await second)["deadlock"]).toBeDefined();
});

describe("what a process says of all who wait in its line", () => {
  test("the one that is in the circle is rejected, and neither the one ahead of it in the line nor the one behind", async () => {
    const at = stage();
    const [p, first, second] = [processes(at, { deadlock: "reject" }), gate(), gate()];
    const one = nest(p(0), "a", "b", first.opened);
    const two = nest(p(1), "b", "a", second.opened);
    await pass(at, 100);
    first.open();
    await pass(at, 100);
    // At the head of p1's line for `a`, and without a part in it.
    const bystander = p(1).run("a", PATIENT, () => "bystander");
    await pass(at, 100);
    second.open();
    const failed = failure(two);
    await pass(at, 100);
    const behind = p(1).run("a", PATIENT, () => "behind");
    await pass(at, 6000);
    expect(await failed).toBeInstanceOf(LockDeadlockError);
    expect(await one).toBe("ab");
    expect(await bystander).toBe("bystander");
    expect(await behind).toBe("behind");
    expect(at.store.view()).toEqual([]);
  });

  test("one that has stopped waiting is not taken for one that waits, while others of its process do", async () => {
    const at = stage();
    const [p, begun, done] = [processes(at, { deadlock: "reject" }), gate(), gate()];
    const waiter = nest(p(0), "l", "m", begun.opened);
    const patient = p(1).run("m", PATIENT, async () => {
      await pass(at, 100);
      // Gives up waiting for `l`, and works on.
      await failure(p(1).run("l", { wait: 700 }, () => {}));
      await done.opened;
    });
    await pass(at, 200);
    begun.open();
    // In the same line as the one that gives up, which stays in the store with its claim.
    const others = [1, 2].map(() => p(1).run("l", PATIENT, () => {}));
    await pass(at, 12_000);
    expect(events).toEqual([]);
    done.open();
    await pass(at, 1000);
    expect(await waiter).toBe("lm");
    await Promise.all([patient, ...others]);
  });

  test("who waits behind a lease that is renewed is known everywhere: so the one that was queued last rejects, and no other", async () => {
    const at = stage();
    const [p, begun] = [processes(at, { deadlock: "reject" }), [gate(), gate(), gate()]];
    const outer = nest(p(0), "l", "n", begun[0]!.opened);
    const behind = nest(p(0), "m", "l", begun[1]!.opened);
    const other = nest(p(1), "n", "m", begun[2]!.opened);
    const settled = Promise.allSettled([outer, behind, other]);
    await pass(at, 100);
    for (const { open } of begun) {
      open();
      await pass(at, 100);
    }
    await pass(at, 20_000);
    const results = await settled;
    expect(results.map(({ status }) => status)).toEqual(["fulfilled", "fulfilled", "rejected"]);
    expect((results[2] as PromiseRejectedResult).reason).toBeInstanceOf(LockDeadlockError);
  });

  test("a circle that comes after another one was resolved is reported, too", async () => {
    const at = stage();
    const p = processes(at, { deadlock: "reject" });
    for (const [one, other] of [
      ["a", "b"],
      ["c", "d"],
    ] as const) {
      const begun = gate();
      events = [];
      const settled = Promise.allSettled([nest(p(0), one, other, begun.opened), nest(p(1), other, one, begun.opened)]);
      await pass(at, 100);
      begun.open();
      await pass(at, 10_000);
      expect((await settled).map(({ status }) => status).toSorted()).toEqual(["fulfilled", "rejected"]);
      expect(inShort(events[0])).toEqual([`p0 ${one}>${other}`, `p1 ${other}>${one}`]);
      // Until no claim waits, and nothing is looked for.
      await pass(at, 5000);
    }
  });

  test("two circles in one process are both reported, each once", async () => {
    const at = stage();
    const [p, begun] = [processes(at), gate()];
    const all = [
      ["a", "b"],
      ["b", "a"],
      ["c", "d"],
      ["d", "c"],
    ].map(([outer, inner]) => failure(nest(p(0), outer!, inner!, begun.opened, { wait: "9s" })).catch(() => undefined));
    await pass(at, 100);
    begun.open();
    await pass(at, 5000);
    expect(events.map(inShort).toSorted()).toEqual([
      ["p0 a>b", "p0 b>a"],
      ["p0 c>d", "p0 d>c"],
    ]);
    await pass(at, 20_000);
    await Promise.all(all);
  });

  test("who waits behind a lease is known anew only where it holds something: others come and go without a request", async () => {
    const at = stage();
    const lease = await at.locks.acquire("a", { ttl: "60s" });
    const waiting = Array.from({ length: 5 }, (_, index) => at.locks.acquire("a", { wait: 300 + index * 100 }));
    const failures = waiting.map((each) => failure(each));
    await pass(at, 1500);
    await Promise.all(failures);
    expect(at.backend.count("renew")).toBe(0);
    await lease.release();
  });

  test("a reader that was let in is not taken for one that waits", async () => {
    const at = stage();
    const p = processes(at);
    const [begun, done] = [gate(), gate()];
    const shared = { wait: Infinity, mode: "shared" } as const;
    const first = p(0).run("l", shared, () => done.opened);
    const theirs = p(1).run("l", shared, async () => {
      await begun.opened;
      return await p(1).run("m", PATIENT, () => "went on");
    });
    await pass(at, 100);
    // The writer waits for both readers, and a reader that holds `m` behind the writer.
    const writer = failure(p(0).acquire("l", { wait: "3s" }));
    await pass(at, 100);
    const reader = p(0).run("m", PATIENT, () => p(0).run("l", shared, () => done.opened));
    await pass(at, 4000);
    await writer;
    events = [];
    begun.open();
    await pass(at, 7000);
    expect(events).toEqual([]);
    done.open();
    await pass(at, 1000);
    expect(await theirs).toBe("went on");
    await Promise.all([first, reader]);
  });

  test("who waits behind a lease that is not renewed is known there alone: so one of that process rejects", async () => {
    const at = stage();
    const [p, begun] = [processes(at, { deadlock: "reject" }), [gate(), gate(), gate()]];
    const outer = p(0).run("l", { ttl: "60s", renew: false }, async () => {
      await begun[0]!.opened;
      return await p(0).run("n", PATIENT, () => "ln");
    });
    const behind = nest(p(0), "m", "l", begun[1]!.opened);
    // Its claim is queued last, but it cannot see the circle.
    const other = nest(p(1), "n", "m", begun[2]!.opened);
    const failed = failure(behind);
    await pass(at, 100);
    for (const { open } of begun) {
      open();
      await pass(at, 100);
    }
    await pass(at, 10_000);
    expect(events.map(({ rejects }) => rejects)).toContain(true);
    expect(await failed).toBeInstanceOf(LockDeadlockError);
    expect(await Promise.all([outer, other])).toEqual(["ln", "nm"]);
  });

  test("what nothing would take back is not said: a lease that is only extended does not show who waits behind it", async () => {
    const at = stage();
    const [p, asked, begun, done] = [processes(at, { deadlock: "reject" }), gate(), gate(), gate()];
    const outer = p(0).run("l", { ttl: "60s", renew: false }, async (lease) => {
      await asked.opened;
      await lease.extend();
      await begun.opened;
      return await p(0).run("n", PATIENT, () => "ln");
    });
    await pass(at, 50);
    const patient = p(0).run("m", PATIENT, async () => {
      // Gives up waiting for `l`, and works on.
      await failure(p(0).run("l", { wait: 900 }, () => {}));
      await done.opened;
    });
    const waiter = nest(p(1), "n", "m", begun.opened);
    await pass(at, 100);
    asked.open();
    await pass(at, 1500);
    begun.open();
    await pass(at, 12_000);
    expect(events).toEqual([]);
    done.open();
    await pass(at, 1000);
    expect(await Promise.all([outer, patient, waiter])).toEqual(["ln", undefined, "nm"]);
  });

  test("what a lease shows from the time when its claim waited is not believed", async () => {
    const at = stage();
    const [p, done] = [processes(at, { deadlock: "reject" }), gate()];
    const first = await at.other().acquire("l");
    // Waits for `l` with `m`; gets it, and gives it back at once, with `m` still in hand.
    const one = p(1).run("m", PATIENT, async () => {
      await p(1).run("l", PATIENT, () => {});
      await done.opened;
    });
    // The next in its line gets the same lease, and waits for `m`.
    const two = p(1).run("x", PATIENT, () => p(1).run("l", PATIENT, () => p(1).run("m", PATIENT, () => "went on")));
    await pass(at, 100);
    await first.release();
    await pass(at, 5000);
    // Others have only the store's word for it.
    const states = byLock(await memory({ store: at.store }).query(""));
    expect(states.get("l")?.held[0]?.local).toMatchObject({ users: 0, holds: [{ name: "m" }] });
    expect(states.get("m")?.held[0]?.local).toMatchObject({ users: 1, holds: [{ name: "l" }, { name: "x" }] });
    expect(new DeadlockGraph(states).knots()).toEqual([]);
    expect(events).toEqual([]);
    done.open();
    await pass(at, 1000);
    expect(await two).toBe("went on");
    await one;
  });
});

describe("work that is started and not awaited", () => {
  const start = (at: Stage, deadlock: "report" | "reject"): readonly Promise<unknown>[] => {
    const p = processes(at, { deadlock });
    const begun: Promise<unknown>[] = [];
    const one = p(0).run("a", PATIENT, async () => {
      // The function does not wait for it: `a` is released when its own work is done.
      begun.push(p(0).run("b", PATIENT, () => "later"));
      begun[0]!.catch(() => {});
      await pass(at, 8000);
      return "done";
    });
    const two = p(1).run("b", PATIENT, async () => {
      await pass(at, 50);
      return await p(1).run("a", PATIENT, () => "went on");
    });
    return [one, two, one.then(() => begun[0])];
  };

  test("is reported, as it looks the same; and no one is rejected, unless that was asked for", async () => {
    const at = stage();
    const all = start(at, "report");
    await pass(at, 6000);
    expect(events.length).toBeGreaterThan(0);
    await pass(at, 4000);
    expect(await Promise.all(all)).toEqual(["done", "went on", "later"]);
  });

  test('with deadlock: "reject" one of the two is rejected, though waiting would have helped', async () => {
    const at = stage();
    const all = Promise.allSettled(start(at, "reject"));
    await pass(at, 12_000);
    const rejected = (await all).filter(({ status }) => status === "rejected");
    expect(rejected.length).toBe(1);
    expect((rejected[0] as PromiseRejectedResult).reason).toBeInstanceOf(LockDeadlockError);
  });
});

describe("who rejects itself", () => {
  test("of a circle that goes through a line inside one process, the one whose claim was queued last", async () => {
    const at = stage();
    const p = processes(at, { deadlock: "reject" });
    const gates = [gate(), gate(), gate()];
    // p0 holds `c` and waits for `a` behind a lease of its own process; that waits for `b` of p1, which waits for `c`.
    const all = [
      nest(p(0), "c", "a", gates[0]!.opened),
      nest(p(0), "a", "b", gates[1]!.opened),
      nest(p(1), "b", "c", gates[2]!.opened),
    ];
    const settled = Promise.allSettled(all);
    await pass(at, 100);
    for (const one of gates) {
      one.open();
      await pass(at, 100);
    }
    await pass(at, 8000);
    expect((await settled).map(({ status }) => status)).toEqual(["fulfilled", "fulfilled", "rejected"]);
    expect(inShort(events[0])).toEqual(["p0 a>b", "p0 c>a", "p1 b>c"]);
    expect(at.store.view()).toEqual([]);
  });

  test("where a store does not say who was queued last, is the one with the greatest id", async () => {
    const at = stage();
    const begun = [gate(), gate()];
    const named = (letter: string): Locks => {
      const backend = memory({ store: at.store });
      const inspect = backend.inspect.bind(backend);
      backend.inspect = async (name) => {
        const state = await inspect(name);
        return { ...state, pending: state.pending.map((one) => ({ ...one, order: undefined })) };
      };
      let ids = 0;
      const chance = { id: () => `${letter}${++ids}`.padEnd(22, "0"), fraction: () => 0.5 };
      return createLocks(backend, { clock: at.clock, holder: letter, deadlock: "reject", chance });
    };
    const settled = Promise.allSettled([
      nest(named("z"), "a", "b", begun[0]!.opened),
      nest(named("m"), "b", "a", begun[1]!.opened),
    ]);
    await pass(at, 100);
    for (const one of begun) {
      one.open();
      await pass(at, 100);
    }
    await pass(at, 6000);
    expect((await settled).map(({ status }) => status)).toEqual(["rejected", "fulfilled"]);
  });

  test("is one that asked for it, though another was queued later", async () => {
    const at = stage();
    const p = processes(at);
    const gates = [gate(), gate()];
    const willing = failure(nest(p(0), "a", "b", gates[0]!.opened, { wait: Infinity, deadlock: "reject" }));
    const other = nest(p(1), "b", "a", gates[1]!.opened);
    await pass(at, 100);
    for (const one of gates) {
      one.open();
      await pass(at, 100);
    }
    await pass(at, 6000);
    expect(await willing).toBeInstanceOf(LockDeadlockError);
    expect(await other).toBe("ba");
  });

  test("of two readers that share a lease and wait, both do, one after the other, and each is reported", async () => {
    const at = stage();
    const [p, begun] = [processes(at, { deadlock: "reject" }), gate()];
    const read = (): Promise<string> =>
      p(0).run("a", { mode: "shared", wait: Infinity }, async () => {
        await begun.opened;
        return await p(0).run("b", PATIENT, () => "read");
      });
    const settled = Promise.allSettled([read(), read(), nest(p(0), "b", "a", begun.opened, { deadlock: "report" })]);
    await pass(at, 100);
    begun.open();
    await pass(at, 9000);
    expect((await settled).map(({ status }) => status)).toEqual(["rejected", "rejected", "fulfilled"]);
    expect(events.map(({ rejects }) => rejects)).toEqual([true, true]);
    expect(at.store.view()).toEqual([]);
  });

  test("rejects no one who was served in the meantime: a subscriber may do anything", async () => {
    const at = stage();
    const p = processes(at, { deadlock: "reject" });
    const [begun, stop] = [gate(), new AbortController()];
    const end = subscribe("deadlock", () => stop.abort(new Error("stopped")));
    const all = Promise.allSettled([
      nest(p(0), "a", "b", begun.opened, { wait: Infinity, signal: stop.signal }),
      nest(p(0), "b", "a", begun.opened, { wait: Infinity, signal: stop.signal }),
    ]);
    await pass(at, 100);
    begun.open();
    await pass(at, 4000);
    end();
    for (const one of await all) expect(one).toMatchObject({ status: "rejected", reason: { message: "stopped" } });
    expect(at.store.view()).toEqual([]);
  });

  test("a candidate of an election never does", async () => {
    const at = stage();
    const [p, stop] = [processes(at, { deadlock: "reject" }), new AbortController()];
    const leader = p(1).run("e", PATIENT, async () => {
      await pass(at, 300);
      await p(1).run("a", { wait: "5s", deadlock: "report" }, () => {});
    });
    const failed = failure(leader);
    await pass(at, 50);
    const candidate = p(0).run("a", PATIENT, async () => {
      await p(0).elect("e", { signal: stop.signal }, () => stop.abort());
      return "elected";
    });
    await pass(at, 8000);
    expect(await failed).toBeInstanceOf(LockTimeoutError);
    expect(await candidate).toBe("elected");
    expect(events.length).toBeGreaterThan(0);
  });

  test("a store that does not show who waits refuses to, and reports nothing", async () => {
    const at = stage();
    expect(() => createLocks(at.backend, { deadlock: "reject" })).toThrow(/does not say that it can/u);
    expect(await failure(at.locks.run("a", { deadlock: "reject" }, () => {}))).toMatchObject({
      code: "ERR_LOCK_BACKEND",
      fatal: true,
    });
    await expect(at.locks.run("a", { deadlock: "maybe" as never }, () => {})).rejects.toThrow(
      /`deadlock` to be "report" or "reject"/u,
    );
    const begun = gate();
    const all = [nest(at.locks, "a", "b", begun.opened, { wait: "5s" }), nest(at.locks, "b", "a", begun.opened)];
    const first = failure(all[0]!);
    begun.open();
    await pass(at, 6000);
    expect((await first)["deadlock"]).toBeUndefined();
    expect(await all[1]).toBe("ba");
    expect(events).toEqual([]);
  });
});

describe("what it costs", () => {
  /** A store that counts what it is asked. */
  function counted(at: Stage): { readonly locks: Locks; readonly count: { inspect: number; query: number } } {
    const [inner, count] = [memory({ store: at.store }), { inspect: 0, query: 0 }];
    const backend: Backend = {
      name: inner.name,
      can: inner.can,
      attempt: (claim) => inner.attempt(claim),
      watch: (claim, signal) => inner.watch!(claim, signal),
      renew: (claims, fences) => inner.renew(claims, fences),
      release: (claim) => inner.release(claim),
      query: (prefix) => (count.query++, inner.query(prefix)),
      inspect: (name) => (count.inspect++, inner.inspect(name)),
      forceRelease: (name, fence, by, reason) => inner.forceRelease(name, fence, by, reason),
      close: () => inner.close(),
    };
    return { locks: createLocks(backend, { clock: at.clock, holder: "here" }), count };
  }

  test("nothing where no one waits for a second, or who does holds nothing", async () => {
    const at = stage();
    const [{ locks, count }, done] = [counted(at), gate()];
    const held = at.other().run("b", PATIENT, () => done.opened);
    await pass(at, 50);
    const top = [1, 2, 3].map(() => locks.run("b", PATIENT, () => {}));
    const short = failure(locks.run("a", () => locks.run("b", { wait: 900 }, () => {})));
    await pass(at, 30_000);
    expect(await short).toBeInstanceOf(LockTimeoutError);
    expect(count).toEqual({ inspect: 0, query: 0 });
    done.open();
    await pass(at, 1000);
    await Promise.all([held, ...top]);
  });

  test("many that leave a line together read it once, and not once each", async () => {
    const at = stage();
    const [done, caller] = [gate(), new AbortController()];
    const held = at.other().run("b", PATIENT, () => done.opened);
    await pass(at, 50);
    const many = at.locks.run("a", () => {
      const options = { ...PATIENT, signal: caller.signal };
      return Promise.allSettled(Array.from({ length: 300 }, () => at.locks.run("b", options, () => {})));
    });
    await pass(at, 500);
    const read = vi.spyOn(Scope.prototype, "held");
    caller.abort();
    await many;
    expect(read.mock.calls.length).toBeLessThan(1000);
    read.mockRestore();
    done.open();
    await held;
  });

  test("at most 32 questions a second for a thousand that wait, and fewer and fewer", async () => {
    const at = stage();
    const [{ locks, count }, done] = [counted(at), gate()];
    const held = at.other().run("hot", { wait: Infinity }, () => done.opened);
    await pass(at, 50);
    const all = Array.from({ length: 1000 }, (_, index) =>
      locks.run(`outer ${index}`, PATIENT, () => locks.run("hot", PATIENT, () => {})),
    );
    let most = 0;
    const perMinute: number[] = [];
    for (let minute = 0; minute < 5; minute++) {
      const began = count.inspect;
      for (let second = 0; second < 60; second++) {
        const before = count.inspect;
        await pass(at, 1000, 250);
        most = Math.max(most, count.inspect - before);
      }
      perMinute.push(count.inspect - began);
    }
    expect(most).toBeGreaterThan(0);
    expect(most).toBeLessThanOrEqual(32);
    expect(perMinute[4]).toBeLessThan(perMinute[0]! * 0.8);
    expect(count.query).toBe(0);
    done.open();
    await pass(at, 3000);
    await Promise.all([held, ...all]);
  });
});
