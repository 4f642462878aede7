/** Random histories, played against the real scripts and against the reference backend: every answer must be the same. */
import "../../fixed-seed.ts";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Backend, Claim, Granted, KeptOutcome, Refused } from "../../../src/contract/backend.ts";
import { type RedisServer, startRedis } from "../../../src/lab/servers/redis.ts";
import { memory } from "../../../src/backends/memory/index.ts";
import { claimOf, Clients } from "./lab.ts";

let server: RedisServer;
let testClients: Clients;
beforeAll(async () => {
  server = await startRedis();
  testClients = new Clients();
});
afterAll(async () => {
  await testClients[Symbol.asyncDispose]();
  await server.stop();
});

const CLAIMS = 7;
const WHATS = [
  "attempt",
  "attempt",
  "attempt",
  "release",
  "release",
  "finish",
  "finish",
  "finish again",
  "forget",
  "renew",
  "renew for longer",
  "renew with other words",
  "swap",
  "force",
  "steal",
  "look",
  "query",
] as const;
type Step = readonly [what: (typeof WHATS)[number], who: number, other: number];

const step: fc.Arbitrary<Step> = fc.tuple(fc.constantFrom(...WHATS), fc.nat(CLAIMS - 1), fc.nat(CLAIMS - 1));
const kinds = fc.array(fc.constantFrom("exclusive", "shared", "try", "wanting", "wanting", "early"), {
  minLength: CLAIMS,
  maxLength: CLAIMS,
});

/** A history as one store plays it. Fences are known by their order of appearance, since each store counts from its own clock. */
class History {
  readonly log: unknown[] = [];
  readonly #backend: Backend;
  readonly #claims: readonly Claim[];
  readonly #seen: bigint[] = [];
  readonly #ends = new Map<bigint, bigint>();
  /** Of each claim, that of its last grant. */
  readonly #fences = new Map<string, bigint>();

  constructor(backend: Backend, claims: readonly Claim[]) {
    this.#backend = backend;
    this.#claims = claims;
  }

  #number(fence: bigint): number {
    if (!this.#seen.includes(fence)) this.#seen.push(fence);
    return this.#seen.indexOf(fence);
  }

  #answer(answer: Granted | Refused, { id }: Claim): unknown {
    if (!answer.granted) return ["refused", answer.position, this.#outcome(answer.outcome)];
    const { fence, run, wanted = false, mayLinger } = answer;
    this.#ends.set(fence, fence + BigInt(run));
    this.#fences.set(id, fence);
    return ["granted", this.#number(fence), wanted, mayLinger];
  }

  #outcome(kept: KeptOutcome | undefined): unknown {
    return kept && [kept.value, this.#number(kept.fence), kept.holder, kept.ageMs < 60_000, kept.remainingMs > 60_000];
  }

  async play([what, who, other]: Step): Promise<unknown> {
    const [backend, claim, next] = [this.#backend, this.#claims[who] as Claim, this.#claims[other] as Claim];
    const { name } = claim;
    // The present value differs from that of the release before it, so that one that was not to be kept is noticed.
    const fence = this.#seen.at(-1 - (other % 3));
    // Mostly that of the claim's own lease.
    const own = other % 4 === 0 ? fence : this.#fences.get(claim.id);
    const outcome = { value: `${what} ${who} ${other} ${this.log.length}`, keepMs: 3_600_000, fence: own ?? 1n };
    switch (what) {
      case "attempt":
        return this.#answer(await backend.attempt(claim), claim);
      case "swap": {
        if (next.id === claim.id) return [];
        const answer = await backend.swap!(claim, next);
        return [this.#answer(answer, next), answer.released];
      }
      case "steal":
        return this.#answer(await backend.steal!(claim, "test"), claim);
      case "release":
        return await backend.release(claim);
      case "finish":
        return await backend.release(claim, outcome);
      case "finish again":
        return [await backend.release(claim, outcome), await backend.release(claim, outcome)];
      case "forget":
        return fence !== undefined && (await backend.forget!(name, fence));
      case "force":
        return fence !== undefined && (await backend.forceRelease(name, fence, "ops", "test"));
      case "renew":
        return (await backend.renew([claim, next])).map((one) => [one.held, one.held === true && one.wanted === true]);
      case "renew for longer": {
        const longer = { ...claim, ttlMs: 2 * claim.ttlMs * (1 + other) };
        return [(await backend.renew([longer])).map(({ held }) => held), (await backend.renew([claim]))[0]?.held];
      }
      case "renew with other words": {
        const local = { waiters: other, users: who, holds: [{ name: "é", fence: 2n ** 60n }], holdsMore: other > 3 };
        const changed = { ...claim, meta: { step: String(this.log.length) }, local, changed: true };
        return (await backend.renew([changed, next])).map(({ held }) => held);
      }
      case "look": {
        const { held, pending, forced, outcome: kept, quarantineMs } = await backend.inspect(name);
        const inOrder = forced.toSorted((a, b) => (a.fence < b.fence ? -1 : 1));
        const seen = inOrder.map((one) => [this.#number(one.fence), one.by, one.reason]);
        return [...this.#shown({ held, pending }), seen, this.#outcome(kept), quarantineMs];
      }
      case "query":
        return this.#shown(await backend.query(name));
    }
  }

  /** Ends are exact to the minute: no step takes as long, and each renewal for longer makes a difference of one. */
  #shown({ held, pending }: Pick<Awaited<ReturnType<Backend["query"]>>, "held" | "pending">): unknown[] {
    const holders = held.map(({ id, mode, limit, fence, holder, meta, local, remainder, remainingMs }) =>
      JSON.stringify([
        id,
        mode,
        limit,
        this.#number(fence),
        holder,
        meta,
        words(local),
        remainder,
        minutes(remainingMs),
      ]),
    );
    const waiters = pending.map(({ id, mode, limit, holder, meta, local, position }) =>
      JSON.stringify([id, mode, limit, holder, meta, words(local), position]),
    );
    // Memory shows those that only a minHold keeps behind the others.
    return [holders.toSorted(), waiters];
  }

  async end(): Promise<unknown[]> {
    for (const claim of this.#claims) await this.#backend.release({ ...claim, minHoldMs: 0 });
    // How long runs are is each store's own affair, but no two overlap.
    const runs = [...this.#ends].toSorted(([a], [b]) => (a < b ? -1 : 1));
    for (const [at, [, end]] of runs.entries()) expect(runs[at + 1]?.[0] ?? end).toBeGreaterThanOrEqual(end);
    return this.log;
  }
}

const words = (local: Claim["local"]): unknown =>
  local && [local.waiters, local.users, local.holdsMore, local.holds.map(({ name, fence }) => [name, String(fence)])];
const minutes = (ms: number): number => Math.round(ms / 60_000);

async function play(backend: Backend, claims: readonly Claim[], steps: readonly Step[]): Promise<unknown[]> {
  const history = new History(backend, claims);
  for (const step of steps) history.log.push([step[0], await history.play(step)]);
  return history.end();
}

async function agree(limit: number, runs: number): Promise<void> {
  // One connection each, so that the order of the steps is the order of the answers.
  const [real, reference] = [testClients.backend(server.port), testClients.own(memory())];
  await fc.assert(
    fc.asyncProperty(kinds, fc.array(step, { maxLength: 40 }), async (modes, steps) => {
      const name = claimOf().name;
      const claims = modes.map((kind, at) =>
        claimOf({
          name,
          mode: kind === "shared" ? "shared" : "exclusive",
          limit: kind === "shared" ? 1 : limit,
          queues: kind !== "try",
          wantsOutcome: kind === "wanting",
          // With a limit, a claim that comes and goes twice would leave two remainders of one name: no claim comes twice.
          minHoldMs: kind === "early" && limit === 1 ? 3_600_000 : 0,
          holder: `host ${at}`,
          meta: { at: String(at) },
        }),
      );
      expect(await play(real, claims, steps)).toEqual(await play(reference, claims, steps));
    }),
    { numRuns: runs },
  );
}

test("answers as the reference backend does, whatever happens in whatever order", () => agree(1, 300), 240_000);
test("answers as the reference backend does with a limit of three", () => agree(3, 200), 240_000);
