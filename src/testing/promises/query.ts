/** Promises about seeing and intervening: who holds, who waits, and ending one lease by its fence. */
import assert from "node:assert/strict";
import { readLoss } from "../../contract/answer.ts";
import type { LossReason } from "../../contract/loss.ts";
import { type ConformancePromise, promise } from "./promise.ts";

export const sightPromises: readonly ConformancePromise[] = [
  promise("shows who holds: name, mode, limit, holder, fence, age, remaining time and meta", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const meta = { reason: "nightly “import”", trace: "00-ab\n" };
    const claim = trial.claim({ holder: "web-3:812", meta, limit: 2 });
    const { fence } = await trial.granted(a, claim);
    await trial.sleep(trial.ttlMs / 5);
    const { held, pending } = await b.query(trial.name);
    assert.equal(held.length, 1);
    const [holding] = held;
    const { heldMs, remainingMs, id, ...facts } = holding ?? assert.fail();
    assert.deepEqual(facts, { name: trial.name, mode: "exclusive", limit: 2, holder: "web-3:812", fence, meta });
    assert.equal(id, claim.id);
    assert.ok(heldMs > 0 && heldMs < trial.patienceMs, `held for ${heldMs} ms`);
    assert.ok(remainingMs > 0 && remainingMs <= claim.ttlMs + trial.slackMs, `${remainingMs} ms remain`);
    assert.deepEqual(pending, []);
  }),

  promise("shows who waits, in order", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    await trial.granted(a, trial.claim());
    const waiters = [
      trial.claim({ holder: "web-1:1", meta: { n: "1" } }),
      trial.claim({ holder: "web-2:2", mode: "shared" }),
    ];
    for (const [at, claim] of waiters.entries()) await trial.refused(at === 0 ? b : a, claim, "the lock is held");
    const { pending } = await a.query(trial.name);
    assert.deepEqual(
      pending.map(({ waitingMs, order: _order, ...facts }) => {
        assert.ok(waitingMs >= 0 && waitingMs < trial.patienceMs, `waits for ${waitingMs} ms`);
        return facts;
      }),
      [
        { name: trial.name, mode: "exclusive", limit: 1, holder: "web-1:1", position: 1, meta: { n: "1" } },
        { name: trial.name, mode: "shared", limit: 1, holder: "web-2:2", position: 2, meta: {} },
      ].map((facts, at) => ({ ...facts, id: waiters[at]?.id })),
    );
  }),

  promise("says to a refused claim who holds the lock", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const { fence } = await trial.granted(a, trial.claim({ holder: "web-3:812" }));
    const { heldBy } = await trial.refused(b, trial.claim(), "the lock is held");
    assert.deepEqual(
      heldBy.map((holding) => [holding.name, holding.holder, holding.fence]),
      [[trial.name, "web-3:812", fence]],
    );
  }),

  promise("shows only locks whose name starts with the prefix, taken literally", async (trial) => {
    const backend = await trial.open();
    const names = ["a*c", "abc", "a?c", "a[b]c", "a%c", "a_c", "a\\c", "a/c"].map((end) => `${trial.name}/${end}`);
    for (const name of names) await trial.granted(backend, trial.claim({ name }));
    for (const name of names) {
      const { held } = await backend.query(name);
      assert.deepEqual(
        held.map((holding) => holding.name),
        [name],
      );
    }
    assert.equal((await backend.query(`${trial.name}/a`)).held.length, names.length);
    await trial.nothingLeft(backend, `${trial.name}/b`);
  }),

  promise("ends by force the lease with that fence, and no other", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const [victim, successor] = [trial.claim(), trial.claim()];
    const { fence, run } = await trial.granted(a, victim);
    const after = fence + BigInt(run);
    for (const wrong of [fence - 1n, after]) {
      assert.equal(
        await b.forceRelease(trial.name, wrong, "ops", "wrong fence"),
        false,
        `fence ${wrong} names no lease`,
      );
    }
    assert.equal(await b.forceRelease(`${trial.name}/other`, fence, "ops", "wrong name"), false);
    assert.equal(await b.forceRelease(trial.name, fence, "ops", "stuck"), true);
    const [renewal] = await a.renew([victim]);
    assert.equal(renewal?.held, false, "the victim no longer holds");
    await trial.granted(b, successor);
    assert.equal(await b.forceRelease(trial.name, fence, "ops", "again"), false, "the successor is not hit");
    assert.equal((await b.renew([successor]))[0]?.held, true, "the successor holds");
  }),

  promise("ends by force a lease named by any fence of its run", async (trial) => {
    const backend = await trial.open();
    const { fence, run } = await trial.granted(backend, trial.claim());
    assert.equal(await backend.forceRelease(trial.name, fence + BigInt(run) - 1n, "ops", "stuck"), true);
    await trial.granted(backend, trial.claim());
  }),

  promise("ends by force one of several holders, and leaves the others", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const [first, second] = [trial.claim({ limit: 2 }), trial.claim({ limit: 2 })];
    await trial.granted(a, first);
    const { fence } = await trial.granted(b, second);
    assert.equal(await a.forceRelease(trial.name, fence, "ops", "stuck"), true);
    assert.equal((await a.renew([first]))[0]?.held, true);
    assert.equal((await b.renew([second]))[0]?.held, false);
  }),

  promise("hands a lock whose lease was ended by force to the next waiter", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const waiter = trial.claim();
    const { fence } = await trial.granted(a, trial.claim());
    await trial.refused(b, waiter, "the lock is held");
    assert.equal(await b.forceRelease(trial.name, fence, "ops", "stuck"), true);
    await trial.grantedAtLast(b, waiter);
  }),

  promise("reports to the holder that its lease was ended by force, and why", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    if (a.listen === undefined) assert.fail("the backend has no listen(): decline the promise, and say why");
    const losses: { readonly id: string; readonly reason: LossReason | string }[] = [];
    const doubted: string[] = [];
    a.listen({
      lost: (id, reason) => losses.push({ id, reason }),
      doubt: (id) => void (id === undefined || doubted.push(id)),
    });
    const [victim, other] = [trial.claim(), trial.claim({ name: `${trial.name}/other` })];
    const { fence } = await trial.granted(a, victim);
    await trial.granted(a, other);
    await b.forceRelease(trial.name, fence, "ops@host", "deploy 17 hangs");
    // Where other processes may send messages, a message is only a reason to renew, and the renewal's answer decides.
    const { id, reason } = await trial.eventually("the holder learns of it", async () => {
      const claim = doubted.length > 0 ? [victim, other].find((each) => each.id === doubted[0]) : undefined;
      if (claim === undefined) return losses[0];
      const [renewal] = await a.renew([claim]);
      return renewal?.held === false ? { id: claim.id, reason: renewal.reason } : undefined;
    });
    assert.equal(id, victim.id);
    const loss = readLoss(reason);
    // A quorum says how many members lost it, and what one of them said.
    const why = loss.kind === "minority" ? loss.why : loss;
    assert.deepEqual(why, { kind: "forced", by: "ops@host", reason: "deploy 17 hangs" });
    assert.equal(losses.length + doubted.length, 1, "reported once, of that lease only");
  }),

  promise("keeps a record of who ended a lease by force, and why", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const { fence } = await trial.granted(a, trial.claim());
    await a.forceRelease(trial.name, fence, "ops@host", "deploy 17 hangs");
    const { forced } = await b.query(trial.name);
    assert.deepEqual(
      forced.map(({ agoMs, ...facts }) => {
        assert.ok(agoMs >= 0 && agoMs < trial.patienceMs, `${agoMs} ms ago`);
        return facts;
      }),
      [{ name: trial.name, fence, by: "ops@host", reason: "deploy 17 hangs" }],
    );
  }),
];
