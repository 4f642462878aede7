import { describe, expect, test } from "vitest";
import { Pulse, trustedMs } from "../../../src/backends/zookeeper/client/session-trust.ts";

/** The leader's clock for the session runs at least from the last message that its follower has surely reported. */
describe("the pulse of a session of 4 s", () => {
  test("lets three quarters be trusted from the moment of asking, while we speak every second", () => {
    expect(trustedMs(4000)).toBe(3000);
    const pulse = new Pulse(0, 4000);
    for (const nowMs of [600, 1200, 1900, 2800]) pulse.beat(nowMs);
    expect(pulse.since(2800)).toBe(2800);
  });

  test("counts from before a pause of this process, until the leader must have heard of us again", () => {
    const pulse = new Pulse(0, 4000);
    pulse.beat(600);
    pulse.beat(3600);
    // The leader's clock may still run from 600: 600 + 4000 is the end of the session, so trust ends there.
    expect(pulse.since(3600) + trustedMs(4000)).toBe(4600);
    pulse.beat(4100);
    expect(pulse.since(4100)).toBe(1600);
    pulse.beat(4600);
    expect(pulse.since(4600)).toBe(4600);
    expect(pulse.since(500)).toBe(500);
  });

  test("never lets a question from before a pause count from after it", () => {
    const pulse = new Pulse(0, 4000);
    pulse.beat(100);
    pulse.beat(9000);
    expect(pulse.since(100)).toBe(100);
  });
});
