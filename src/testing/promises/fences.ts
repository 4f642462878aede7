/** Promises about fences: of two leases on one lock, the later has the greater number. */
import assert from "node:assert/strict";
import type { Granted } from "../../contract/backend.ts";
import { type ConformancePromise, promise } from "./promise.ts";

export const fencePromises: readonly ConformancePromise[] = [
  promise("gives every lease a greater fence than the one before it, whichever process asks", async (trial) => {
    const backends = [await trial.open(), await trial.open()];
    const grants: Granted[] = [];
    for (const backend of [...backends, ...backends, ...backends]) {
      const claim = trial.claim();
      grants.push(await trial.granted(backend, claim));
      await backend.release(claim);
    }
    assertRising(grants);
  }),

  promise("gives a greater fence after a lease that ended by itself", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const ended = await trial.granted(a, trial.brief());
    assertRising([ended, await trial.grantedAtLast(b, trial.claim())]);
  }),

  promise("gives a greater fence to a waiter that was handed the lock", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const [holder, waiter] = [trial.claim(), trial.claim()];
    const before = await trial.granted(a, holder);
    await trial.refused(b, waiter, "the lock is held");
    await a.release(holder);
    assertRising([before, await trial.grantedAtLast(b, waiter)]);
  }),

  promise("gives a claim that ended and asks again a new lease with a greater fence", async (trial) => {
    const backend = await trial.open();
    const claim = trial.claim();
    const before = await trial.granted(backend, claim);
    await backend.release(claim);
    assertRising([before, await trial.granted(backend, claim)]);
  }),

  promise("reserves the whole run of a grant, so that no later lease has a fence of it", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const claim = trial.claim();
    const before = await trial.granted(a, claim);
    await a.release(claim);
    const after = await trial.granted(b, trial.claim());
    const lastOfRun = before.fence + BigInt(before.run) - 1n;
    assert.ok(after.fence > lastOfRun, `fence ${after.fence} belongs to the run ${before.fence}–${lastOfRun}`);
  }),

  promise("fences a shared lease at or above the last exclusive one and below the next", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const [writer, nextWriter] = [trial.claim(), trial.claim()];
    const before = await trial.granted(a, writer);
    await a.release(writer);
    const readers = [trial.claim({ mode: "shared" }), trial.claim({ mode: "shared" })];
    const shared = [];
    for (const reader of readers) shared.push(await trial.granted(b, reader));
    for (const reader of readers) await b.release(reader);
    const after = await trial.granted(a, nextWriter);
    for (const { fence } of shared) {
      assert.ok(fence >= before.fence, `shared fence ${fence} is below ${before.fence}, of the writer before`);
      assert.ok(fence < after.fence, `shared fence ${fence} is not below ${after.fence}, of the next writer`);
    }
  }),

  promise("reserves no run where several may hold, so that later holders always have greater fences", async (trial) => {
    const backend = await trial.open();
    const claims = [1, 2, 3].map(() => trial.claim({ limit: 2 }));
    const [first, second, third] = claims as [(typeof claims)[0], (typeof claims)[0], (typeof claims)[0]];
    const grants = [await trial.granted(backend, first), await trial.granted(backend, second)];
    await backend.release(first);
    grants.push(await trial.granted(backend, third));
    assertRising(grants);
    assert.deepEqual(
      grants.map(({ run }) => run),
      [1, 1, 1],
      "a run of one",
    );
  }),
];

function assertRising(grants: readonly Granted[]): void {
  for (const [at, { fence }] of grants.entries()) {
    const before = grants[at - 1];
    if (before === undefined) continue;
    assert.ok(fence > before.fence, `fence ${fence} came after ${before.fence}`);
  }
}
