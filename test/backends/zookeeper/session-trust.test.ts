import { describe, expect, test } from "vitest";
import { SessionTrust, trustedMs } from "../../../src/backends/zookeeper/client/session-trust.ts";

/** The leader's clock for the session runs at least from the last message that its follower has surely reported. */
describe("the trust in a session of 4 s", () => {
  test("lasts three quarters of it from the time of asking, while we send every second", () => {
    expect(trustedMs(4000)).toBe(3000);
    const trust = new SessionTrust(0, 4000);
    for (const nowMs of [600, 1200, 1900, 2800]) trust.sent(nowMs);
    expect(trust.since(2800)).toBe(2800);
  });

  test("counts from before a pause of this process, until the leader has certainly learned of us again", () => {
    const trust = new SessionTrust(0, 4000);
    trust.sent(600);
    trust.sent(3600);
    // The leader's clock may still run from 600: 600 + 4000 is the end of the session, so trust ends there.
    expect(trust.since(3600) + trustedMs(4000)).toBe(4600);
    trust.sent(4100);
    expect(trust.since(4100)).toBe(1600);
    trust.sent(4600);
    expect(trust.since(4600)).toBe(4600);
    expect(trust.since(500)).toBe(500);
  });

  test("never counts a request from before a pause from after it", () => {
    const trust = new SessionTrust(0, 4000);
    trust.sent(100);
    trust.sent(9000);
    expect(trust.since(100)).toBe(100);
  });
});
