/** Reasons of a loss: data with one wording, whatever a backend gives; and a quarantine that is not a holder. */
import { describe, expect, test } from "vitest";
import { readLoss } from "../../src/contract/answer.ts";
import { LockLostError, LockTimeoutError } from "../../src/contract/errors.ts";
import { describeLoss, type LossReason } from "../../src/contract/loss.ts";
import { stage } from "./scripted.ts";

const FORCED: LossReason = { kind: "forced", by: "ops", reason: "stuck" };

/** One of each kind: a new kind needs its row. */
const WORDED: { readonly [Kind in LossReason["kind"]]: readonly [LossReason & { readonly kind: Kind }, RegExp] } = {
  forced: [{ kind: "forced", by: "ops", reason: "stuck" }, /^ended by force by ops: stuck$/],
  expired: [{ kind: "expired", renewal: "failed", failures: 3 }, /did not confirm it \(3 renewals failed\)/],
  slept: [{ kind: "slept" }, /slept past the end of its ttl/],
  unconfirmed: [{ kind: "unconfirmed" }, /could not be asked/],
  unkept: [{ kind: "unkept" }, /did not say in time whether it has kept/],
  "in-doubt": [{ kind: "in-doubt" }, /in doubt/],
  "max-hold": [{ kind: "max-hold" }, /maxHold/],
  closed: [{ kind: "closed" }, /closed/],
  released: [{ kind: "released" }, /released/],
  gone: [{ kind: "gone" }, /no longer knows it/],
  removed: [{ kind: "removed" }, /removed it from the store/],
  overwritten: [{ kind: "overwritten" }, /overwrote it/],
  retaken: [{ kind: "retaken" }, /took the lock again/],
  "session-ended": [{ kind: "session-ended" }, /session/],
  "not-held": [{ kind: "not-held" }, /does not hold it/],
  minority: [
    { kind: "minority", gone: 2, members: 3, why: FORCED },
    /^2 of 3 members no longer hold it \(ended by force by ops: stuck\)$/,
  ],
  other: [{ kind: "other", text: "evicted" }, /^evicted$/],
};

describe("a loss", () => {
  test.each(Object.values(WORDED))("%o has its words, and comes through as it was given", (loss, words) => {
    expect(describeLoss(loss)).toMatch(words);
    expect(readLoss(loss)).toEqual(loss);
    const error = new LockLostError("a", 7n, loss);
    expect(error).toMatchObject({ loss, reason: expect.stringMatching(words) });
    expect(error.message).toContain(error.reason);
  });

  test("that expired says how", () => {
    const worded = (loss: Omit<LossReason & { kind: "expired" }, "kind">): string =>
      describeLoss({ kind: "expired", ...loss });
    expect(worded({ renewal: "off" })).toMatch(/not renewed/);
    expect(worded({ renewal: "late" })).not.toMatch(/noticed/);
    expect(worded({ renewal: "late", lateMs: 1234.5 })).toMatch(/noticed 1235 ms late/);
    expect(worded({ renewal: "late-majority" })).toMatch(/before a majority/);
  });

  const given: readonly (readonly [string, unknown, string])[] = [
    ["a text, as in 0.1", "evicted", "evicted"],
    ["an error", new Error("evicted"), "evicted"],
    ["nothing", undefined, "undefined"],
    ["an unknown kind", { kind: "eaten" }, "[object Object]"],
    ["a name that every object has", { kind: "constructor" }, "[object Object]"],
    [
      "fields that throw",
      Object.defineProperty({}, "kind", {
        get: () => {
          throw new Error("no");
        },
        enumerable: true,
      }),
      "[object Object]",
    ],
    ["functions", { kind: "forced", by: () => "ops", reason: "stuck", toString: () => "by hand" }, "by hand"],
  ];
  test.each(given)("given as %s is words", (_, reason, text) => {
    expect(readLoss(reason)).toEqual({ kind: "other", text });
  });

  test("is read once: what it says later counts for nothing", () => {
    let reads = 0;
    const flips = {
      kind: "forced",
      reason: "stuck",
      get by() {
        return reads++ === 0 ? "ops" : "another";
      },
    };
    const loss = readLoss(flips);
    expect(describeLoss(loss)).toBe("ended by force by ops: stuck");
    expect(describeLoss(loss)).toBe("ended by force by ops: stuck");
  });
});

test("a time-out in a quarantine says so, and names no holder", () => {
  const error = new LockTimeoutError("invoice:42", 2000, [], 12_000);
  expect(error).toMatchObject({ heldBy: [], quarantineMs: 12_000 });
  expect(error.message).toMatch(
    /^Lock "invoice:42" cannot be granted yet: the store may have lost its data, and is in quarantine for 12 s; gave up after 2 s/,
  );
  expect(new LockTimeoutError("invoice:42", 2000).quarantineMs).toBeUndefined();
});

test.each([
  [{ renew: false }, { kind: "expired", renewal: "off" }],
  [{ maxHold: 1000 }, { kind: "max-hold" }],
  [{}, { kind: "expired", renewal: "failed" }],
] as const)("a loss that another acquire notices first says why, too: %j", async (options, loss) => {
  const { clock, backend, locks } = stage();
  backend.interfere.renew = () => Promise.reject(new Error("cut off"));
  const lease = await locks.acquire("a", { ttl: 1000, ...options });
  await clock.advance(500);
  clock.block(1000);
  await locks.acquire("a", { ttl: 1000 });
  expect((lease.signal.reason as LockLostError).loss).toMatchObject(loss);
});

describe("the cause of a loss", () => {
  const refusal = new Error("permission denied");

  test("is what the last renewal failed with", async () => {
    const { clock, backend, locks } = stage();
    const lease = await locks.acquire("a");
    const failures = [new Error("cut off"), refusal];
    backend.interfere.renew = () => Promise.reject(failures.length > 1 ? failures.shift() : refusal);
    await clock.advance(30_000);
    const lost = lease.signal.reason as LockLostError;
    expect(lost.loss).toMatchObject({ kind: "expired", renewal: "failed" });
    expect(lost.cause).toBe(refusal);
    // That is data, which can be sent and written down.
    expect(JSON.parse(JSON.stringify(lost.loss))).toEqual(lost.loss);
    expect(() => lease.assertHeld()).toThrow(lost);
    expect(await lease.release()).toBe("lost");
  });

  test("is its own, of several that are renewed together", async () => {
    const { clock, backend, locks } = stage();
    const leases = [await locks.acquire("a"), await locks.acquire("b"), await locks.acquire("c")];
    const causes: Record<string, Error> = { a: refusal, b: new Error("too long") };
    backend.interfere.renew = async (_, claims) =>
      claims.map(({ name }) => (name in causes ? { held: "unknown", cause: causes[name] } : { held: true }));
    await clock.advance(30_000);
    const [a, b] = leases.map(({ signal }) => signal.reason as LockLostError | undefined);
    expect([a!.cause, b!.cause]).toEqual([causes.a, causes.b]);
    leases[2]!.assertHeld();
  });

  test("is reported as well where a call of the lease notices the loss first", async () => {
    const { clock, backend, locks } = stage();
    const lease = await locks.acquire("a");
    backend.interfere.renew = () => Promise.reject(refusal);
    while (backend.count("renew") === 0) await clock.step();
    clock.block(30_000);
    expect(() => lease.assertHeld()).toThrow(expect.objectContaining({ cause: refusal }));
    expect(await lease.release()).toBe("lost");
    expect((lease.signal.reason as LockLostError).cause).toBe(refusal);
  });

  test("is none of a renewal that was followed by an answer, nor of a lease that ended for another reason", async () => {
    const { clock, backend, locks } = stage();
    const [lease, other] = [await locks.acquire("a"), await locks.acquire("b")];
    backend.interfere.renew = () => Promise.reject(refusal);
    await clock.advance(12_000);
    const failed = backend.count("renew");
    expect(failed).toBeGreaterThan(0);
    await locks.forceRelease("b", { fence: other.fence, reason: "stuck" });
    await clock.advance(1);
    expect((other.signal.reason as LockLostError).loss.kind).toBe("forced");
    expect(other.signal.reason).not.toHaveProperty("cause");
    backend.interfere.renew = undefined;
    await clock.advance(10_000);
    backend.interfere.renew = () => new Promise(() => {});
    await clock.advance(30_000);
    expect(lease.signal.reason).toMatchObject({ loss: { kind: "expired", renewal: "late" } });
    expect(lease.signal.reason).not.toHaveProperty("cause");
  });
});
