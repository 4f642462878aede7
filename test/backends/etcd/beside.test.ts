/** What is kept beside a lock's queue: outcomes with leases of their own, and what claims show of themselves. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Claim, Outcome } from "../../../src/contract/backend.ts";
import type { LocalFacts } from "../../../src/contract/claim.ts";
import { etcd, type EtcdBackend } from "../../../src/backends/etcd/index.ts";
import { AbandonedClaims } from "../../../src/backends/etcd/abandoned.ts";
import { toError } from "../../../src/backends/etcd/client/errors.ts";
import { leftInEtcd } from "../../../src/lab/leftovers.ts";
import { type EtcdLab, startEtcd } from "../../../src/lab/servers/etcd.ts";
import { acquire, claim, eventually, granted, refused } from "./claims.ts";

let lab: EtcdLab;
let backend: EtcdBackend;
let other: EtcdBackend;
let names = 0;

beforeAll(async () => {
  lab = await startEtcd();
  backend = etcd({ endpoints: lab.endpoints });
  other = etcd({ endpoints: lab.endpoints });
});

afterAll(async () => {
  await Promise.all([backend.close(), other.close()]);
  await lab.stop();
});

function lockName(): string {
  return `beside-${++names}`;
}

function outcome(fence: bigint, value = "done"): Outcome {
  return { value, keepMs: 3_600_000, fence };
}

function wanting(name: string, change: Partial<Claim> = {}): Claim {
  return claim(name, { wantsOutcome: true, ...change });
}

/** Every lease that the cluster has now. */
async function allLeases(): Promise<readonly string[]> {
  return (await lab.etcdctl("lease", "list")).split("\n").filter((line) => /^[0-9a-f]+$/u.test(line));
}

/** Loses the answer to the next transaction that `isIt`, after it was carried out: this comes instead. */
function loseAnswer(
  to: EtcdBackend,
  isIt: (request: Parameters<EtcdBackend["client"]["txn"]>[0]) => boolean,
  instead: Error = new Error("the answer was lost"),
): void {
  const { client } = to;
  const txn = client.txn.bind(client);
  client.txn = async (request, limitMs) => {
    const answer = await txn(request, limitMs);
    if (!isIt(request)) return answer;
    client.txn = txn;
    throw instead;
  };
}

describe("an outcome", () => {
  test("has a lease of its own, and none is left of those that were taken for it without success", async () => {
    const worker = claim(lockName(), { ttlMs: 600_000, renewed: true });
    const { fence } = await granted(backend, worker);
    const before = await allLeases();
    loseAnswer(backend, ({ success }) => success.some((one) => "put" in one));
    await expect(backend.release(worker, outcome(fence))).rejects.toThrow("the answer was lost");
    expect(await backend.release(worker, outcome(fence)), "it was carried out").toBe("held");
    expect(await backend.release(worker, outcome(fence, "again")), "and is answered so again").toBe("held");
    expect((await other.inspect(worker.name)).outcome?.value).toBe("done");
    await eventually("one lease more than before", async () =>
      (await allLeases()).length === before.length + 1 ? true : undefined,
    );
    const next = claim(worker.name, { ttlMs: 600_000, renewed: true });
    const { fence: later } = await granted(backend, next);
    expect(await backend.release(next, outcome(later, "later"))).toBe("held");
    await eventually("that of the outcome before is gone", async () =>
      (await allLeases()).length === before.length + 1 ? true : undefined,
    );
    expect(await other.forget(worker.name, later)).toBe(true);
    await eventually("and that of a forgotten one", async () =>
      (await allLeases()).length === before.length ? true : undefined,
    );
  });

  test("is kept for as long as was asked, also where the calls that keep it take long", async () => {
    const slow = etcd({ endpoints: lab.endpoints });
    const worker = claim(lockName());
    const { fence } = await granted(slow, worker);
    const { client } = slow;
    const [grant, keepAlive] = [client.grantLease.bind(client), client.keepAlive.bind(client)];
    const [taken, kept]: [bigint[], bigint[]] = [[], []];
    client.grantLease = async (seconds, limitMs) => {
      const answer = await grant(seconds, limitMs);
      taken.push(answer.id);
      const startMs = performance.now();
      await eventually("some of it is over", () => (performance.now() > startMs + 50 * seconds ? true : undefined));
      return answer;
    };
    client.keepAlive = async (id, limitMs) => {
      const answer = await keepAlive(id, limitMs);
      kept.push(id);
      return answer;
    };
    expect(await slow.release(worker, { ...outcome(fence), keepMs: 6000 })).toBe("held");
    expect(kept, "its time has started again").toEqual(taken);
    await slow.close();
  });

  test("is kept by a process that only knows the claim and its fence", async () => {
    const worker = claim(lockName(), { minHoldMs: 60_000 });
    const { fence } = await granted(backend, worker);
    const resumed = { ...worker, resumes: true };
    expect(await other.release(resumed, outcome(fence - 1n)), "of another lease: it ends without").toBe("absent");
    const ended = await other.inspect(worker.name);
    expect([ended.outcome, ended.held[0]?.remainder]).toEqual([undefined, "minHold"]);
    const again = claim(lockName(), { minHoldMs: 60_000 });
    const { fence: its } = await granted(backend, again);
    expect(await other.release({ ...again, resumes: true }, outcome(its))).toBe("held");
    const { held, outcome: kept } = await backend.inspect(again.name);
    expect([kept?.value, kept?.fence]).toEqual(["done", its]);
    expect(held.map((one) => [one.fence, one.remainder])).toEqual([[its, "minHold"]]);
    expect(await other.release({ ...again, resumes: true }, outcome(its)), "asked again").toBe("held");
  });

  test("is news to every waiter of a process by one watch", async () => {
    const worker = claim(lockName());
    const { fence } = await granted(other, worker);
    const crowd = etcd({ endpoints: lab.endpoints });
    const waiters = Array.from({ length: 20 }, () => wanting(worker.name));
    for (const waiter of waiters) await refused(crowd, waiter);
    const stop = new AbortController();
    const news = waiters.map((waiter) => crowd.watch(waiter, stop.signal));
    await eventually("all wait", () => (crowd.client.watches > waiters.length ? true : undefined));
    expect(crowd.client.watches, "one for each predecessor, and one for the outcome").toBe(21);
    expect(await other.release(worker, outcome(fence))).toBe("held");
    expect(await Promise.all(news)).toEqual(waiters.map(() => undefined));
    for (const waiter of waiters) expect((await refused(crowd, waiter)).outcome?.value).toBe("done");
    expect((await other.inspect(worker.name)).pending).toEqual([]);
    await crowd.close();
  });

  test("of another program's making keeps no claim from the lock, whatever becomes of it", async () => {
    const name = lockName();
    const key = Buffer.from(`/holdfast/%outcome/${name}`);
    const garbage = async (text: string): Promise<unknown> =>
      other.client.txn({ when: [], success: [{ put: { key, value: Buffer.from(text), lease: 0n } }] });
    await garbage('{"holdfast":1}');
    const [holder, waiter, last] = [wanting(name), wanting(name), wanting(name, { limit: 2, queues: false })];
    await granted(backend, holder);
    await refused(backend, waiter);
    await garbage("not even JSON");
    await backend.release(holder);
    await acquire(backend, waiter);
    await other.client.txn({ when: [], success: [{ remove: { key } }] });
    await backend.release(waiter);
    await garbage("");
    await granted(backend, last);
    await backend.release(last);
    expect((await backend.inspect(name)).outcome).toBeUndefined();
  });
});

describe("what a claim shows", () => {
  const facts: LocalFacts = { waiters: 3, users: 0, holds: [], holdsMore: false };

  test.each(["released", "ended by force"])("goes with the claim when it is %s", async (how) => {
    // Longer than the check takes: nothing may go because its lease is over.
    const [holder, waiter] = [claim(lockName(), { ttlMs: 600_000 }), claim(`beside-${names}`, { ttlMs: 600_000 })];
    const { fence } = await granted(backend, holder);
    await refused(backend, waiter);
    await backend.renew([{ ...holder, local: facts, changed: true }]);
    await refused(backend, { ...waiter, local: facts });
    await eventually("both are shown", async () => {
      const { held, pending } = await other.inspect(holder.name);
      return held[0]?.local?.waiters === 3 && pending[0]?.local?.waiters === 3 ? true : undefined;
    });
    if (how === "released") await backend.release(holder);
    else await other.forceRelease(holder.name, fence, "ops", "stuck");
    await acquire(backend, { ...waiter, local: facts });
    await backend.release(waiter);
    const shown = `%shown/${holder.name}/`;
    await eventually("nothing is left of it", async () =>
      (await leftInEtcd(other.client, shown)).length === 0 ? true : undefined,
    );
  });
});

test("tries of a claim with a limit are never in the way of others, however many race for the last place", async () => {
  const name = lockName();
  const most: number[] = [];
  const stop = other.client.watchPuts(
    { key: Buffer.from(`/holdfast/${name}/`), end: Buffer.from(`/holdfast/${name}0`) },
    other.client.revision + 1n,
    { changed: (keys) => most.push(...keys.map(() => 1)), ended: () => undefined },
  );
  const tries = Array.from({ length: 30 }, () => claim(name, { limit: 3, queues: false }));
  const backends = [backend, other];
  const answers = await Promise.all(tries.map((one, at) => backends[at % 2]!.attempt(one)));
  expect(answers.filter((answer) => answer.granted)).toHaveLength(3);
  await eventually("all that was written is heard", () => (most.length >= 3 ? true : undefined));
  for (const [at, one] of tries.entries()) await backends[at % 2]!.release(one);
  const last = claim(name, { limit: 3, queues: false });
  await granted(other, last);
  await eventually("and what came after it", () => (most.length >= 4 ? true : undefined));
  expect(most, "no key of a try that was refused").toHaveLength(4);
  await other.release(last);
  stop();
});

test("a try that failed because the database is full, and was carried out all the same, leaves nothing behind", async () => {
  // As etcd does where the database fills up between the look at its size and the write.
  const full = toError("8", "etcdserver: mvcc: database space exceeded");
  for (const change of [{}, { queues: false }, { queues: false, limit: 2 }]) {
    const [one, healthy] = [claim(lockName(), { renewed: true, ...change }), claim(lockName(), { renewed: true })];
    // They have one lease, which the other keeps alive.
    await granted(backend, healthy);
    loseAnswer(backend, ({ success }) => success.some((operation) => "put" in operation), full);
    await expect(backend.attempt(one)).rejects.toMatchObject({ fatal: false });
    await backend.release(one);
    expect((await other.inspect(one.name)).held, "none is left").toEqual([]);
    await granted(backend, { ...claim(one.name, { renewed: true }) });
    expect((await backend.renew([healthy]))[0]?.held).toBe(true);
  }
});

test("a waiter that could not leave, and is not asked for again, is in no claim's way after its ttl", async () => {
  const leaving = etcd({ endpoints: lab.endpoints });
  const names = [lockName(), lockName()];
  const [alone, shared] = names.map((name, at) => claim(name, { ttlMs: 1000, renewed: at === 1 })) as [Claim, Claim];
  const holders = names.map((name) => claim(name, { ttlMs: 600_000 }));
  // It has the lease of the second waiter, and keeps it alive.
  const healthy = claim(lockName(), { ttlMs: 1000, renewed: true });
  for (const holder of holders) await granted(backend, holder);
  await granted(leaving, healthy);
  for (const waiter of [alone, shared]) await refused(leaving, waiter);
  const { client } = leaving;
  const txn = client.txn.bind(client);
  client.txn = (request, limitMs) =>
    request.success.some((operation) => "remove" in operation)
      ? Promise.reject(toError("7", "etcdserver: permission denied"))
      : txn(request, limitMs);
  for (const waiter of [alone, shared]) await expect(leaving.release(waiter)).rejects.toThrow("permission denied");
  client.txn = txn;
  await eventually("both are gone", async () => {
    await leaving.renew([healthy]);
    const all = await Promise.all(names.map((name) => other.inspect(name)));
    return all.every(({ pending }) => pending.length === 0) ? true : undefined;
  });
  for (const holder of holders) await backend.release(holder);
  await leaving.close();
});

test("claims that were given up are forgotten when the cluster no longer knows their leases", async () => {
  const abandoned = new AbandonedClaims(backend.client);
  const { id: alive } = await backend.client.grantLease(3600);
  const { id: over } = await backend.client.grantLease(3600);
  await backend.client.revokeLease(over);
  abandoned.add("kept", alive);
  for (let i = 0; i < 500; i++) abandoned.add(`gone-${i}`, over);
  await eventually("the others are forgotten", () => {
    abandoned.add("gone-0", over);
    return abandoned.size < 210 ? true : undefined;
  });
  expect(abandoned.has("kept"), "its key may still appear").toBe(true);
  await backend.client.revokeLease(alive);
});
