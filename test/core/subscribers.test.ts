/** Subscribers run in the middle of ours. Whatever they do, no lock is the worse for it, and each hears a whole story. */
import { expect, onTestFinished, test } from "vitest";
import type { HoldEvent, LostEvent, RenewEvent } from "../../src/contract/events.ts";
import { holdChannel } from "../../src/contract/events.ts";
import { type HoldfastEvents, subscribe } from "../../src/core/subscribe.ts";
import { stage } from "./scripted.ts";

function hear<Name extends keyof HoldfastEvents>(name: Name, listener: (event: HoldfastEvents[Name]) => void): void {
  onTestFinished(subscribe(name, listener));
}

function heard<Name extends keyof HoldfastEvents>(name: Name): HoldfastEvents[Name][] {
  const events: HoldfastEvents[Name][] = [];
  hear(name, (event) => void events.push(event));
  return events;
}

/** What is heard of each lease, in order. */
function stories(): Map<HoldEvent, string[]> {
  const all = new Map<HoldEvent, string[]>();
  for (const part of ["start", "error", "end"] as const) {
    const note = (event: unknown): void => {
      const story = all.get(event as HoldEvent) ?? [];
      all.set(event as HoldEvent, [...story, part]);
    };
    holdChannel[part].subscribe(note);
    onTestFinished(() => {
      holdChannel[part].unsubscribe(note);
    });
  }
  return all;
}

test("a subscriber that freezes what it hears breaks no lock", async () => {
  const { clock, locks, other } = stage();
  hear("acquire:start", (event) => void Object.freeze(event));
  hear("hold:start", (event) => void Object.freeze(event));
  const heardOf = stories();
  const lease = await locks.acquire("a");
  // One waits here, one in another process, one gives up.
  const [here, there] = [locks.acquire("a"), other().acquire("a")];
  const late = expect(locks.acquire("a", { wait: 100 })).rejects.toThrow(/gave up after 100 ms/);
  await clock.advance(200);
  await late;
  expect(await lease.release()).toBe("released");
  const released = Promise.all([here, there].map(async (waiting) => (await waiting).release()));
  await clock.advance(2000);
  expect(await released).toEqual(["released", "released"]);
  expect(await locks.run("a", () => 7)).toBe(7);
  expect(await locks.isHeld("a")).toBe(false);
  expect([...heardOf.values()]).toEqual([
    ["start", "end"],
    ["start", "end"],
    ["start", "end"],
    ["start", "end"],
  ]);
});

test.each([1, 2])("a subscriber whose event runs code of its own leaves no lease behind (%d)", async (which) => {
  const { clock, locks, store } = stage();
  const abort = new AbortController();
  let noted = 0;
  // It is noted when the question leaves, and when the grant is here.
  const set = (): void => (++noted === which ? abort.abort() : undefined);
  hear("acquire:start", (event) => void Object.defineProperty(event, "attempts", { set }));
  const lease = await locks.acquire("a", { signal: abort.signal }).catch(() => undefined);
  expect(noted).toBe(which);
  await lease?.release();
  await clock.advance(0);
  expect(store.view().flatMap(({ held }) => held)).toEqual([]);
});

test("a subscriber whose meta cannot be read breaks no acquire", async () => {
  const { locks } = stage();
  hear("acquire:start", (event) => {
    Object.defineProperty(event, "meta", {
      get: () => {
        throw new Error("no");
      },
    });
  });
  expect((await locks.acquire("a", { meta: { job: "7" } })).fence).toBe(1n);
  expect((await locks.inspect("a")).held[0]?.meta).toEqual({ job: "7" });
});

test("a lease that is lost before its caller has it is heard of from its start to its loss, though it is never released", async () => {
  const { backend, locks } = stage();
  const heardOf = stories();
  hear("acquire", () => backend.listener!.lost(backend.steps.at(-1)!.claims[0]!.id, { kind: "removed" }));
  const lease = await locks.acquire("a");
  expect(lease.signal.aborted).toBe(true);
  expect([...heardOf.values()]).toEqual([["start", "error"]]);
});

test("who hears of a lease after the one that ended it hears of its start first", async () => {
  const { backend, locks } = stage();
  hear("hold:start", () => backend.listener!.lost(backend.steps.at(-1)!.claims[0]!.id, { kind: "removed" }));
  const heardOf = stories();
  await locks.acquire("a");
  await expect(locks.run("b", () => {})).rejects.toThrow(/was lost/);
  expect([...heardOf.values()]).toEqual([
    ["start", "error"],
    ["start", "error", "end"],
  ]);
});

test("a lease whose function is done, while a call inside it goes on, is heard of until its loss", async () => {
  const { backend, locks } = stage();
  const heardOf = stories();
  const inner = await locks.run("a", () => locks.acquire("a"));
  expect([...heardOf.values()]).toEqual([["start"]]);
  backend.listener!.lost(backend.steps[0]!.claims[0]!.id, { kind: "removed" });
  expect([...heardOf.values()]).toEqual([["start", "error"]]);
  expect([...heardOf.keys()]).toMatchObject([{ heldMs: 0, error: { loss: { kind: "removed" } } }]);
  await inner.release();
  expect([...heardOf.values()]).toEqual([["start", "error", "end"]]);
});

test("what close() ends is over for subscribers, also where only a call inside was left", async () => {
  const { locks } = stage();
  const heardOf = stories();
  await locks.acquire("a");
  await locks.run("b", () => locks.acquire("b"));
  await locks.close();
  expect([...heardOf.values()]).toEqual([
    ["start", "error"],
    ["start", "error"],
  ]);
});

test("a re-entry while closing is the same with a subscriber as without one", async () => {
  for (const isHeard of [false, true]) {
    const { locks } = stage();
    if (isHeard) hear("hold", () => {});
    const closing = locks.run("a", async () => {
      const closed = locks.close();
      expect(await (await locks.acquire("a")).release()).toBe("released");
      return () => closed;
    });
    await (
      await closing
    )();
  }
});

test("of readers that share a lease, the first did not get it from another", async () => {
  const { backend, locks } = stage();
  const begun = heard("hold:start");
  await Promise.all([1, 2, 3].map(() => locks.acquire("a", { mode: "shared" })));
  expect(backend.count("attempt")).toBe(1);
  expect(begun.map(({ localHandOver }) => localHandOver)).toEqual([false, true, true]);
});

test("a lease that the store no longer knows at its release was lost, and is reported once", async () => {
  const { backend, locks } = stage();
  const lost: LostEvent[] = heard("lost");
  backend.interfere.release = async (pass) => {
    await pass();
    return "absent";
  };
  expect(await (await locks.acquire("a")).release()).toBe("lost");
  expect(lost).toMatchObject([{ backend: "scripted", name: "a", fence: 1n, loss: { kind: "gone" } }]);
  await expect(locks.run("b", () => {})).rejects.toThrow(/was lost/);
  expect(lost).toHaveLength(2);
  // One that was lost before is reported then, and not at its release.
  const lease = await locks.acquire("c");
  backend.listener!.lost(backend.steps.at(-1)!.claims[0]!.id, { kind: "removed" });
  await lease.release();
  expect(lost.map(({ loss }) => loss.kind)).toEqual(["gone", "gone", "removed"]);
});

test("a renewal that gets no answer at all is reported when it is asked for again, before its lease is lost", async () => {
  const { clock, backend, locks } = stage({ ttl: "30s" });
  const renewals: RenewEvent[] = heard("renew");
  const lost = heard("lost");
  await locks.acquire("a");
  await locks.acquire("b");
  backend.interfere.renew = () => new Promise(() => {});
  await clock.advance(21_000);
  expect(lost).toEqual([]);
  expect(renewals).toMatchObject([{ asked: 2, renewed: 0, gone: 0, unknown: 2, ttlMs: 30_000 }]);
  expect(renewals[0]!.delayMs).toBeGreaterThanOrEqual(10_000);
  expect(renewals[0]!.tookMs).toBeGreaterThanOrEqual(10_000);
  await clock.advance(10_000);
  expect(lost).toHaveLength(2);
});

test("a listener that is ended in the middle of an event does not hear it", async () => {
  const { locks } = stage();
  const seen: string[] = [];
  hear("hold", () => end());
  const end = subscribe("hold", () => void seen.push("ended"));
  hear("hold", () => void seen.push("behind it"));
  await locks.run("a", () => {});
  expect(seen).toEqual(["behind it"]);
});

// Found by `npm run fuzz -- --one 823166`: a subscriber to the second lock's beginning was inside the first one's lease.
test("what a subscriber runs when a group begins is no re-entry of the group: it waits for its turn", async () => {
  const { clock, locks } = stage();
  const order: string[] = [];
  const subscribed: Promise<unknown>[] = [];
  hear("hold:start", (event) => {
    // Once for each lock of the group, when its lease begins, and not for what the subscriber takes itself.
    if (subscribed.length >= 2) return;
    const other = event.name === "x" ? "y" : "x";
    subscribed.push(locks.run(other, () => void order.push(`subscriber under ${other}`)));
  });
  const group = locks.run(["x", "y"], async () => {
    await clock.sleep(100);
    order.push("group");
  });
  await clock.advance(200);
  await group;
  await clock.advance(200);
  await Promise.all(subscribed);
  expect(subscribed).toHaveLength(2);
  expect(order[0]).toBe("group");
  expect(order.slice(1).toSorted()).toEqual(["subscriber under x", "subscriber under y"]);
});
