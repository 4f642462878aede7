/** When a message counts, and when it is only a reason to ask: the rules alone, on a clock that stands still. */
import { describe, expect, test } from "vitest";
import type { Granted } from "../../../src/contract/backend.ts";
import type { News } from "../../../src/backends/redis/messages.ts";
import { Waiters } from "../../../src/backends/redis/waiting.ts";
import { FakeClock } from "../../../src/testing/fake-clock.ts";
import { claimOf } from "./lab.ts";

const LAST = 1_790_000_000_000_000;
const WALL_MS = LAST / 1000;

interface Scene {
  readonly clock: FakeClock;
  readonly queue: Waiters;
  /** How often the claim gave a sign of life. */
  readonly beats: () => number;
  /** What the answer to the next signs of life is. */
  answer: string;
  readonly tell: (fence: number, change?: Partial<News>) => void;
  /** The answer to another attempt, which left now: still queued. */
  readonly queuedAgain: () => void;
  /** The grant that the watch brought; "ask" for an ended watch without one, "nothing" while it waits. */
  readonly news: () => Promise<Granted | "ask" | "nothing">;
}

async function scene({ by = "", confirms = false, ttlMs = 60_000 } = {}): Promise<Scene> {
  const clock = new FakeClock();
  const claim = claimOf({ ttlMs });
  let beats = 0;
  const made: { answer: string } = { answer: `=${LAST} 0${by}` };
  const queue = new Waiters(clock, confirms, {
    portions: (waiters) => (waiters.length === 0 ? [] : [[...waiters]]),
    send: (portion) => {
      beats++;
      return Promise.resolve(portion.map(() => made.answer));
    },
  });
  await clock.advance(1);
  let seen: Granted | "ask" | "nothing" = "nothing";
  const queuedAgain = (): void => {
    queue.queued(claim, "key", 60_000, clock.now(), { last: LAST, againMs: 0, by }, WALL_MS);
    seen = "nothing";
    void queue.watch(claim, new AbortController().signal).then((granted) => (seen = granted ?? "ask"));
  };
  queuedAgain();
  return Object.assign(made, {
    clock,
    queue,
    beats: () => beats,
    queuedAgain,
    tell: (fence: number, change: Partial<News> = {}) =>
      queue.granted(claim, { fences: { fence: BigInt(fence), run: 1 }, sure: true, by, ...change }),
    news: async () => {
      await clock.settle();
      return seen;
    },
  });
}

describe("S122: a grant message", () => {
  test("counts when its fence is above the last one that an answer showed, from when that question left", async () => {
    const { clock, tell, news } = await scene();
    const sentMs = clock.now();
    await clock.advance(5000);
    tell(LAST + 1);
    expect(await news()).toMatchObject({ granted: true, fence: BigInt(LAST + 1), fromMs: sentMs });
  });

  const hints: readonly (readonly [string, number, Partial<News>, string])[] = [
    ["its fence is the last one of an answer", LAST, {}, ""],
    ["its fence is far above the server's clock", LAST + 3 * 3_600_000_000, {}, ""],
    ["the store was not sure that any process listens", LAST + 1, { sure: false }, ""],
    ["it comes from another life of the server", LAST + 1, { by: "@000000000000" }, "@111111111111"],
    ["it does not say which life of the server it comes from", LAST + 1, { by: "" }, "@111111111111"],
    ["it says so though no answer did", LAST + 1, { by: "@000000000000" }, ""],
  ];
  for (const [when, fence, change, by] of hints) {
    test(`is only a reason to ask when ${when}`, async () => {
      const { clock, tell, news, beats } = await scene({ by });
      tell(fence, change);
      await clock.advance(0);
      expect(await news()).toBe("nothing");
      expect(beats()).toBe(1);
    });
  }

  test("is only a reason to ask when too little of the lease would be left", async () => {
    const { clock, tell, news, beats } = await scene({ ttlMs: 9000 });
    await clock.advance(6500);
    tell(LAST + 1);
    await clock.advance(0);
    expect(await news()).toBe("nothing");
    expect(beats()).toBe(1);
  });

  test("is only a reason to ask after a reconnect, until a question that left later was answered", async () => {
    const { clock, queue, tell, news, beats } = await scene();
    queue.beatAll();
    tell(LAST + 1);
    await clock.advance(0);
    // That answer was asked for in the very instant of the reconnect.
    expect({ news: await news(), beats: beats() }).toEqual({ news: "nothing", beats: 1 });
    await clock.advance(60_000 / 3);
    tell(LAST + 1);
    expect(await news()).toMatchObject({ granted: true });
  });

  test("is measured by the greatest last fence of all answers, in whatever order they came", async () => {
    const made = await scene();
    made.answer = `=${LAST + 500} 0`;
    await made.clock.advance(20_000);
    made.answer = `=${LAST + 100} 0`;
    await made.clock.advance(20_000);
    expect(made.beats()).toBe(2);
    made.tell(LAST + 400);
    await made.clock.advance(0);
    expect(await made.news()).toBe("nothing");
    made.tell(LAST + 501);
    expect(await made.news()).toMatchObject({ granted: true });
  });

  test("is a reason for an attempt where replicas must confirm it", async () => {
    const { tell, news } = await scene({ confirms: true });
    tell(LAST + 1);
    expect(await news()).toBe("ask");
  });

  test("that is no proof makes it ask at once, and thousands of them no oftener than at a steady pace", async () => {
    const { clock, tell, beats } = await scene();
    for (let i = 0; i < 1000; i++) {
      tell(LAST);
      await clock.advance(1);
    }
    expect(beats()).toBeGreaterThan(10);
    expect(beats()).toBeLessThanOrEqual(21);
  });

  test("that comes while it is being asked about is not forgotten", async () => {
    const made = await scene();
    made.tell(LAST, {});
    made.tell(LAST, {});
    await made.clock.advance(0);
    made.answer = `${LAST + 7}+000000`;
    made.tell(LAST, {});
    await made.clock.advance(60);
    expect(await made.news()).toMatchObject({ granted: true, fence: BigInt(LAST + 7) });
  });

  for (const sure of [true, false]) {
    test(`that overtakes the answer to an attempt is judged after it (${sure ? "sure" : "not sure"})`, async () => {
      const made = await scene();
      made.answer = "-";
      await made.clock.advance(60_000 / 3);
      expect(await made.news()).toBe("ask");
      made.tell(LAST + 7, { sure });
      made.answer = `${LAST + 7}+000000`;
      made.queuedAgain();
      await made.clock.advance(0);
      expect(await made.news()).toMatchObject({ granted: true, fence: BigInt(LAST + 7) });
      expect(made.beats()).toBe(sure ? 1 : 2);
    });
  }

  test("that is older than the answer to an attempt is only a reason to ask, also if it came before it", async () => {
    const made = await scene();
    made.answer = "-";
    await made.clock.advance(60_000 / 3);
    made.tell(LAST - 7);
    made.answer = `=${LAST} 0`;
    made.queuedAgain();
    await made.clock.advance(0);
    expect({ news: await made.news(), beats: made.beats() }).toEqual({ news: "nothing", beats: 2 });
  });
});
