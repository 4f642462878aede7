/** Promises about time: a lease lasts its ttl, not less; renewed, it lasts on; not renewed, it ends. */
import assert from "node:assert/strict";
import { type ConformancePromise, promise } from "./promise.ts";

export const timePromises: readonly ConformancePromise[] = [
  promise("keeps a lease for its whole ttl", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const claim = trial.brief();
    const { sentMs, fromMs, ttlMs } = await trial.granted(a, claim);
    await trial.keptUntil((fromMs ?? sentMs) + (ttlMs ?? claim.ttlMs), b, () => trial.claim({ queues: false }));
  }),

  promise("ends the lease of a holder that died, so that the next gets in", async (trial) => {
    const [dead, b] = [await trial.open(), await trial.open()];
    const { sentMs } = await trial.granted(dead, trial.brief());
    const waiter = trial.brief();
    await trial.refused(b, waiter, "the lock is held", sentMs);
    await trial.crash(dead);
    await trial.grantedAtLast(b, waiter);
  }),

  promise("ends a lease that is not renewed, though its process lives", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const silent = trial.brief();
    await trial.granted(a, silent);
    await trial.grantedAtLast(b, trial.claim());
    const [renewal] = await a.renew([silent]);
    assert.equal(renewal?.held, false, "a certain no");
    assert.equal(await a.release(silent), "absent", "nothing to release");
  }),

  promise("answers no for a lease that expired, even when no other claim wanted the lock", async (trial) => {
    const backend = await trial.open();
    const claim = trial.brief();
    await trial.granted(backend, claim);
    await trial.eventually("the lease ends", async () =>
      (await backend.query(trial.name)).held.length === 0 ? true : undefined,
    );
    const [renewal] = await backend.renew([claim]);
    assert.equal(renewal?.held, false, "renewing does not revive it");
    await trial.granted(backend, trial.claim());
  }),

  promise("keeps a renewed lease for a whole ttl after the renewal", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const claim = trial.brief();
    let { sentMs } = await trial.granted(a, claim);
    let untilMs = 0;
    for (let times = 0; times < 3; times++) {
      await trial.sleep(trial.ttlMs / 2);
      const beforeMs = sentMs;
      sentMs = trial.clock.now();
      const [renewal] = await a.renew([claim]);
      trial.inTime(beforeMs);
      assert.equal(renewal?.held, true, "renewed in time");
      if (renewal?.held === true) untilMs = (renewal.fromMs ?? sentMs) + claim.ttlMs;
    }
    await trial.keptUntil(untilMs, b, () => trial.claim({ queues: false }));
  }),

  promise(
    "renews a lease for a longer ttl than it was granted for",
    async (trial) => {
      const [a, b] = [await trial.open(), await trial.open()];
      const claim = trial.brief();
      const { sentMs: grantedMs } = await trial.granted(a, claim);
      const longer = { ...claim, ttlMs: 3 * claim.ttlMs };
      const sentMs = trial.clock.now();
      const [renewal] = await a.renew([longer]);
      trial.inTime(grantedMs);
      if (renewal?.held !== true) assert.fail("renewed in time");
      await trial.keptUntil((renewal.fromMs ?? sentMs) + longer.ttlMs, b, () => trial.claim({ queues: false }));
    },
    "otherTtl",
  ),

  promise(
    "ends no lease sooner because it was renewed for a shorter ttl",
    async (trial) => {
      const [a, b] = [await trial.open(), await trial.open()];
      const claim = trial.claim({ ttlMs: 3 * trial.ttlMs });
      const { sentMs, fromMs } = await trial.granted(a, claim);
      assert.equal((await a.renew([{ ...claim, ttlMs: trial.ttlMs }]))[0]?.held, true);
      await trial.keptUntil((fromMs ?? sentMs) + claim.ttlMs, b, () => trial.claim({ queues: false }));
      await trial.grantedAtLast(b, trial.claim());
    },
    "otherTtl",
  ),

  promise("answers each renewal by itself, in the order asked", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const [held, ended, waiting, unknown] = [
      trial.claim(),
      trial.claim({ name: `${trial.name}/ended` }),
      trial.claim(),
      trial.claim({ name: `${trial.name}/never` }),
    ];
    const others = [trial.claim({ name: `${trial.name}/2`, mode: "shared" }), trial.claim({ name: `${trial.name}/3` })];
    await trial.granted(a, held);
    await trial.granted(a, ended);
    await a.release(ended);
    await trial.granted(b, trial.claim({ name: ended.name }));
    await trial.refused(a, waiting, "the lock is held");
    for (const other of others) await trial.granted(a, other);
    const renewals = await a.renew([ended, held, unknown, ...others, waiting]);
    assert.deepEqual(
      renewals.map((renewal) => renewal.held),
      [false, true, false, true, true, false],
    );
    assert.deepEqual(await a.renew([]), [], "nothing asked, nothing answered");
  }),

  promise("keeps a lock released before its minHold until that age, and no longer", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const brief = trial.claim({ minHoldMs: trial.ttlMs });
    const { sentMs } = await trial.granted(a, brief);
    await trial.sleep(trial.ttlMs / 5);
    assert.equal(await a.release(brief), "held");
    const [renewal] = await a.renew([brief]);
    assert.equal(renewal?.held, false, "no claim holds it");
    await trial.keptUntil(sentMs + brief.minHoldMs, b, () => trial.claim({ queues: false }));
    await trial.grantedAtLast(b, trial.claim());
  }),

  promise("frees a lock at once when it is released after its minHold", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const claim = trial.claim({ minHoldMs: Math.round(trial.ttlMs / 5) });
    await trial.granted(a, claim);
    await trial.sleep(trial.ttlMs / 2);
    await a.release(claim);
    await trial.granted(b, trial.claim());
  }),

  promise(
    "keeps no claim away for a minHold that the release does not name: the lease was never used",
    async (trial) => {
      const [a, b] = [await trial.open(), await trial.open()];
      for (const mode of ["exclusive", "shared"] as const) {
        const unwanted = trial.claim({ mode, minHoldMs: trial.patienceMs });
        await trial.granted(a, unwanted);
        assert.equal(await a.release({ ...unwanted, minHoldMs: 0 }), "held");
        const next = trial.claim();
        await trial.granted(b, next);
        await b.release(next);
      }
      if (a.swap === undefined) return;
      const [unwanted, next] = [trial.claim({ minHoldMs: trial.patienceMs }), trial.claim()];
      await trial.granted(a, unwanted);
      const answer = await a.swap({ ...unwanted, minHoldMs: 0 }, next);
      assert.ok(answer.granted, "nor in a swap()");
    },
  ),

  promise("keeps the lock for ttl and lockDelay after an unclean end", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const claim = trial.brief({ lockDelayMs: trial.ttlMs });
    const { sentMs } = await trial.granted(a, claim);
    await trial.keptUntil(sentMs + claim.ttlMs + claim.lockDelayMs, b, () => trial.claim({ queues: false }));
    await trial.grantedAtLast(b, trial.claim());
  }),

  promise("waits for no lockDelay after a clean release", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const claim = trial.brief({ lockDelayMs: 3_600_000 });
    await trial.granted(a, claim);
    await a.release(claim);
    await trial.granted(b, trial.claim());
  }),
];
