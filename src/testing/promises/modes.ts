/** Promises about who may hold together: readers with readers, as many as the limit, and none starves. */
import assert from "node:assert/strict";
import { LockBackendError } from "../../contract/errors.ts";
import { type ConformancePromise, promise } from "./promise.ts";

export const modePromises: readonly ConformancePromise[] = [
  promise("lets shared claims hold together, and an exclusive one only when all have left", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const readers = [trial.claim({ mode: "shared" }), trial.claim({ mode: "shared" })] as const;
    await trial.granted(a, readers[0]);
    await trial.granted(b, readers[1]);
    const writer = trial.claim();
    await trial.refused(a, writer, "two readers hold");
    await a.release(readers[0]);
    await trial.refused(a, writer, "one reader holds");
    await b.release(readers[1]);
    await trial.grantedAtLast(a, writer);
  }),

  promise("keeps shared claims out while an exclusive one holds, then lets all of them in", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const writer = trial.claim();
    const readers = [trial.claim({ mode: "shared" }), trial.claim({ mode: "shared" })];
    await trial.granted(a, writer);
    for (const reader of readers) await trial.refused(b, reader, "a writer holds");
    await a.release(writer);
    for (const reader of readers) await trial.grantedAtLast(b, reader);
    assert.equal((await a.query(trial.name)).held.length, 2, "both hold at once");
  }),

  promise("does not let a stream of readers starve a waiting writer", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const [reader, lateReader] = [trial.claim({ mode: "shared" }), trial.claim({ mode: "shared" })];
    const writer = trial.claim();
    await trial.granted(a, reader);
    await trial.refused(b, writer, "a reader holds");
    await trial.refused(a, lateReader, "a writer waits ahead of it");
    await trial.refused(a, trial.claim({ mode: "shared", queues: false }), "a writer waits ahead of it");
    await a.release(reader);
    await trial.grantedAtLast(b, writer);
    await trial.refused(a, lateReader, "the writer holds");
    await b.release(writer);
    await trial.grantedAtLast(a, lateReader);
  }),

  promise("lets as many hold as the limit says, and one more for each that leaves", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const claims = Array.from({ length: 3 }, () => trial.claim({ limit: 3 }));
    for (const [at, claim] of claims.entries()) await trial.granted(at % 2 === 0 ? a : b, claim);
    const [fourth, fifth] = [trial.claim({ limit: 3 }), trial.claim({ limit: 3 })];
    await trial.refused(b, fourth, "three hold");
    await trial.refused(a, fifth, "three hold");
    await b.release(claims[1] ?? fourth);
    await trial.grantedAtLast(b, fourth);
    await trial.refused(a, fifth, "three hold again");
    assert.equal((await a.query(trial.name)).held.length, 3);
  }),

  promise("keeps shared and limited claims apart", async (trial) => {
    const backend = await trial.open();
    const limited = trial.claim({ limit: 3 });
    const reader = trial.claim({ mode: "shared" });
    await trial.granted(backend, limited);
    await trial.refused(backend, reader, "a limited claim holds");
    await backend.release(limited);
    await trial.grantedAtLast(backend, reader);
    await trial.refused(backend, trial.claim({ limit: 3 }), "a reader holds");
  }),

  promise("refuses a claim whose limit differs from the holders', naming both", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    await trial.granted(a, trial.claim({ limit: 3 }));
    await assert.rejects(b.attempt(trial.claim({ limit: 5 })), (error: unknown) => {
      assert.ok(error instanceof LockBackendError, "a LockBackendError");
      assert.ok(error.fatal, "asking again cannot help");
      assert.match(error.message, /\b3\b.*\b5\b|\b5\b.*\b3\b/s, "both limits");
      return true;
    });
  }),

  promise("takes a new limit once no claim holds or waits", async (trial) => {
    const backend = await trial.open();
    const before = trial.claim({ limit: 3 });
    await trial.granted(backend, before);
    await backend.release(before);
    await trial.granted(backend, trial.claim({ limit: 2 }));
  }),

  promise("ends a dead reader's lease at its own time, though other readers keep renewing", async (trial) => {
    const [alive, dead, writers] = [await trial.open(), await trial.open(), await trial.open()];
    const [reader, deadReader, writer] = [
      trial.brief({ mode: "shared" }),
      trial.brief({ mode: "shared" }),
      trial.brief(),
    ];
    let { sentMs } = await trial.granted(alive, reader);
    await trial.granted(dead, deadReader);
    await trial.crash(dead);
    await trial.eventually("one reader is left", async () => {
      const beforeMs = sentMs;
      sentMs = trial.clock.now();
      const [renewal] = await alive.renew([reader]);
      trial.inTime(beforeMs);
      assert.equal(renewal?.held, true, "the living reader still holds");
      const { held } = await alive.query(trial.name);
      return held.length === 1 ? held : undefined;
    });
    const refusal = await writers.attempt(writer);
    trial.inTime(sentMs);
    assert.equal(refusal.granted, false, "the living reader holds");
    await alive.release(reader);
    await trial.grantedAtLast(writers, writer);
  }),
];
