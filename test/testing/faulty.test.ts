import { describe, expect, test } from "vitest";
import type { Claim } from "../../src/contract/backend.ts";
import { memory, memoryStore } from "../../src/backends/memory/index.ts";
import { newClaim } from "../../src/testing/claim.ts";
import { FakeClock, faulty, seeded } from "../../src/testing/index.ts";

const claim = newClaim({ name: "x", ttlMs: 1000 });

describe("faulty()", () => {
  test("loses a request: the store never saw it, and the caller cannot know", async () => {
    const store = memoryStore();
    const backend = faulty(memory({ store }));
    backend.faults.next("attempt", { fault: "request-lost" });
    await expect(backend.attempt(claim)).rejects.toMatchObject({ code: "ERR_LOCK_BACKEND", fatal: false });
    expect((await memory({ store }).query("")).held).toEqual([]);
    expect(await backend.attempt(claim)).toMatchObject({ granted: true });
  });

  test("loses a reply: the store did it, and the caller cannot know", async () => {
    const store = memoryStore();
    const backend = faulty(memory({ store }));
    backend.faults.next("attempt", { fault: "reply-lost" }, 2);
    await expect(backend.attempt(claim)).rejects.toMatchObject({ code: "ERR_LOCK_BACKEND", fatal: false });
    await expect(backend.attempt(claim)).rejects.toThrow(/reply was lost/);
    expect((await memory({ store }).query("")).held).toHaveLength(1);
    expect(await backend.attempt(claim)).toMatchObject({ granted: true, fence: 1n });
    expect(backend.faults.count).toBe(2);
  });

  test("delays the request and the reply by the clock it was given", async () => {
    const clock = new FakeClock();
    const store = memoryStore({ clock });
    const backend = faulty(memory({ store }), { clock });
    backend.faults.next("attempt", { fault: "delay", requestMs: 100, replyMs: 50 });
    let answered = false;
    void backend.attempt(claim).then(() => (answered = true));
    await clock.advance(99);
    expect((await memory({ store }).query("")).held).toEqual([]);
    await clock.advance(50);
    expect((await memory({ store }).query("")).held).toHaveLength(1);
    expect(answered).toBe(false);
    await clock.advance(1);
    expect(answered).toBe(true);
  });

  test("loses news: the watch hears nothing until it is aborted", async () => {
    const store = memoryStore();
    const holder = memory({ store });
    const backend = faulty(memory({ store }));
    const waiter = { ...claim, id: "claim-0000000000000002" };
    await holder.attempt(claim);
    await backend.attempt(waiter);
    backend.faults.always("watch", { fault: "reply-lost" });
    const stop = new AbortController();
    let heard = false;
    const news = backend.watch?.(waiter, stop.signal).then((granted) => {
      heard = true;
      return granted;
    });
    await holder.release(claim);
    await new Promise((resolve) => setImmediate(resolve));
    expect(heard).toBe(false);
    stop.abort();
    expect(await news).toBeUndefined();
  });

  test("throws the same dice for the same seed, and none after heal()", async () => {
    const outcomes = async (seed: number): Promise<string> => {
      const backend = faulty(memory(), { seed, requestLost: 0.3, replyLost: 0.3 });
      const seen: string[] = [];
      for (let times = 0; times < 40; times++) {
        seen.push(
          await backend.attempt(claim).then(
            () => "ok",
            (error: Error) => error.message,
          ),
        );
      }
      backend.faults.heal();
      for (let times = 0; times < 20; times++) await backend.attempt(claim);
      return seen.join();
    };
    const once = await outcomes(7);
    expect(await outcomes(7)).toBe(once);
    expect(await outcomes(8)).not.toBe(once);
    expect(once).toMatch(/ok/);
    expect(once).toMatch(/request was lost/);
    expect(once).toMatch(/reply was lost/);
  });

  test("leaves a caller without an answer, whether or not the store did it", async () => {
    const store = memoryStore();
    const backend = faulty(memory({ store }));
    let answered = false;
    const answer = (): void => void (answered = true);
    backend.faults.next("attempt", { fault: "hang" });
    void backend.attempt(claim).then(answer, answer);
    await new Promise((resolve) => setImmediate(resolve));
    expect(store.view()).toEqual([]);
    backend.faults.next("attempt", { fault: "hang", done: true });
    void backend.attempt(claim).then(answer, answer);
    await new Promise((resolve) => setImmediate(resolve));
    expect(store.view()).toMatchObject([{ name: "x", held: [{ fence: 1n }] }]);
    expect(answered).toBe(false);
  });

  test("fails with an error that is none of ours", async () => {
    const store = memoryStore();
    const backend = faulty(memory({ store }));
    backend.faults.next("release", { fault: "error", message: "ECONNRESET", done: true });
    await backend.attempt(claim);
    await expect(backend.release(claim)).rejects.toThrow(/^ECONNRESET$/);
    expect(store.view()).toEqual([]);
  });

  test("counts the calls of each operation, so that a fault can name one", async () => {
    const backend = faulty(memory(), { at: [{ operation: "attempt", nth: 2, fault: { fault: "request-lost" } }] });
    await backend.attempt(claim);
    await backend.renew([claim]);
    await expect(backend.attempt(claim)).rejects.toThrow(/request was lost/);
    await backend.attempt(claim);
  });

  test("loses or delays what the backend tells by itself", async () => {
    const clock = new FakeClock();
    const store = memoryStore({ clock });
    const backend = faulty(memory({ store }), { clock });
    const lost: string[] = [];
    backend.listen?.({ lost: (id) => lost.push(id), doubt: () => undefined });
    const force = async (): Promise<void> => {
      const answer = await backend.attempt(claim);
      if (answer.granted) await backend.forceRelease(claim.name, answer.fence, "test", "for the test");
    };
    backend.faults.next("listen", { fault: "request-lost" });
    await force();
    backend.faults.next("listen", { fault: "delay", requestMs: 100 });
    await force();
    await clock.advance(99);
    expect(lost).toEqual([]);
    await clock.advance(1);
    expect(lost).toEqual([claim.id]);
  });

  test("adds no turn of the microtask queue to a call that nothing happens to", async () => {
    const turns = async (backend: { attempt: (one: Claim) => Promise<unknown> }): Promise<number> => {
      let count = 0;
      let done = false;
      void backend.attempt(claim).then(() => (done = true));
      while (!done && ++count < 100) await Promise.resolve();
      return count;
    };
    expect(await turns(faulty(memory()))).toBe(await turns(memory()));
  });

  test("lacks the methods that the options name", () => {
    const plain = faulty(memory(), { without: ["swap", "watch"] });
    expect("swap" in plain || "watch" in plain).toBe(false);
    expect("listen" in plain).toBe(true);
  });

  test("has no method that the backend does not have", () => {
    const rest: Partial<ReturnType<typeof memory>> = { ...faulty(memory()) };
    delete (rest as { watch?: unknown }).watch;
    const plain = faulty(rest as never);
    expect("watch" in plain).toBe(false);
    expect("vote" in plain).toBe(true);
  });
});

describe("seeded()", () => {
  test("makes ids that look like real ones, and the same ones again", () => {
    const ids = Array.from(
      { length: 100 },
      (
        (chance) => () =>
          chance.id()
      )(seeded(3)),
    );
    expect(ids.every((id) => /^[\w-]{22}$/.test(id))).toBe(true);
    expect(new Set(ids).size).toBe(100);
    expect(seeded(3).id()).toBe(ids[0]);
  });
});
