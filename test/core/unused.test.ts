/** A `minHold` is for the holder of a lease. A lease that came too late for its user, or alone of its group, goes back at once. */
import { describe, expect, test } from "vitest";
import { holdChannel } from "../../src/contract/events.ts";
import { LockBackendError, LockTimeoutError } from "../../src/contract/errors.ts";
import { failure, gate, stage, type Stage } from "./scripted.ts";

const KEPT = { minHold: "10m" } as const;

/** The store grants at once; its answer is on its way until the gate opens. */
function slowAnswers({ backend }: Stage): () => void {
  const { opened, open } = gate();
  backend.interfere.attempt = async (pass) => {
    const answer = await pass();
    await opened;
    return answer;
  };
  return open;
}

async function expectFree(world: Stage, name: string): Promise<void> {
  await world.clock.advance(3000);
  const lease = await world.other().tryAcquire(name, KEPT);
  expect(lease).not.toBeNull();
}

describe("no caller had it, so its minHold keeps no claim away:", () => {
  test("a try that timed out while its grant was on its way", async () => {
    const world = stage();
    const open = slowAnswers(world);
    const trying = failure(world.locks.tryAcquire("a", { ...KEPT, timeout: 200 }));
    await world.clock.advance(300);
    open();
    expect(await trying).toBeInstanceOf(LockBackendError);
    await expectFree(world, "a");
  });

  test("a waiter that was aborted while its grant was on its way", async () => {
    const world = stage();
    const open = slowAnswers(world);
    const over = new AbortController();
    const waiting = failure(world.locks.acquire("a", { ...KEPT, signal: over.signal }));
    await world.clock.settle();
    over.abort();
    open();
    await waiting;
    await expectFree(world, "a");
  });

  test("a grant from the store's queue that comes when no request waits any more", async () => {
    const world = stage();
    const rival = await world.other().acquire("a");
    const waiting = failure(world.locks.acquire("a", { ...KEPT, wait: 1000 }));
    await world.clock.advance(500);
    world.backend.interfere.release = () => Promise.reject(new Error("down"));
    await world.clock.advance(600);
    await waiting;
    await rival.release();
    await world.clock.advance(500);
    world.backend.interfere.release = undefined;
    await expectFree(world, "a");
  });

  test("a candidate whose candidacy ends when it is elected", async () => {
    const world = stage();
    const over = new AbortController();
    const end = (): void => over.abort();
    holdChannel.start.subscribe(end);
    let began = false;
    try {
      const office = world.locks.elect("a", { ...KEPT, signal: over.signal }, () => void (began = true));
      await world.clock.advance(100);
      await office;
    } finally {
      holdChannel.start.unsubscribe(end);
    }
    expect(began).toBe(false);
    await expectFree(world, "a");
  });

  test("the parts of a group that was not handed out", async () => {
    const world = stage();
    await world.other().acquire("b");
    const group = failure(world.locks.acquire(["a", "b"], { ...KEPT, wait: 1000 }));
    await world.clock.advance(1500);
    expect(await group).toBeInstanceOf(LockTimeoutError);
    await expectFree(world, "a");
  });
});

test("a group that is not handed out leaves the minHold of a lease that it entered again", async () => {
  const world = stage();
  await world.other().acquire("b");
  const running = world.locks.run("a", KEPT, () => failure(world.locks.acquire(["a", "b"], { wait: 1000 })));
  await world.clock.advance(2000);
  expect(await running).toBeInstanceOf(LockTimeoutError);
  expect(await world.other().tryAcquire("a")).toBeNull();
});
