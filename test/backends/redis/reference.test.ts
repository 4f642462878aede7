/** Random histories, played against the real scripts and against the reference backend: every answer must be the same. */
import "../../fixed-seed.ts";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Backend, Claim, Granted } from "../../../src/contract/backend.ts";
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
type Step = readonly [what: "attempt" | "release" | "renew" | "swap" | "force" | "look", who: number, other: number];

const step: fc.Arbitrary<Step> = fc.tuple(
  fc.constantFrom("attempt", "attempt", "attempt", "release", "release", "renew", "swap", "force", "look"),
  fc.nat(CLAIMS - 1),
  fc.nat(CLAIMS - 1),
);
const kinds = fc.array(fc.constantFrom("exclusive", "shared", "try"), { minLength: CLAIMS, maxLength: CLAIMS });

/** Plays a history; fences are shown by their order of appearance, since each store counts from its own clock. */
async function play(backend: Backend, claims: readonly Claim[], steps: readonly Step[]): Promise<unknown[]> {
  const log: unknown[] = [];
  const fences = new Map<bigint, number>();
  const seen: bigint[] = [];
  const ends = new Map<bigint, bigint>();
  const order = ({ fence, run }: Granted): number => {
    if (!fences.has(fence)) fences.set(fence, fences.size);
    ends.set(fence, fence + BigInt(run));
    if (!seen.includes(fence)) seen.push(fence);
    return fences.get(fence) as number;
  };
  const name = (claims[0] as Claim).name;
  for (const [what, who, other] of steps) {
    const claim = claims[who] as Claim;
    if (what === "attempt" || what === "swap") {
      const next = claims[other] as Claim;
      if (what === "swap" && next.id === claim.id) continue;
      const answer = await (what === "attempt" ? backend.attempt(claim) : (backend.swap?.(claim, next) as never));
      log.push(answer.granted ? ["granted", order(answer)] : ["refused", answer.position]);
    } else if (what === "release") {
      log.push(["release", await backend.release(claim)]);
    } else if (what === "renew") {
      log.push(["renew", (await backend.renew([claim, claims[other] as Claim])).map(({ held }) => held)]);
    } else if (what === "force") {
      const fence = seen.at(-1 - (other % 3));
      if (fence !== undefined) log.push(["force", await backend.forceRelease(name, fence, "ops", "test")]);
    } else {
      const { held, pending } = await backend.query(name);
      log.push(["look", held.map(({ mode }) => mode), pending.map(({ mode, position }) => [mode, position])]);
    }
  }
  for (const claim of claims) await backend.release(claim);
  // How long runs are is each store's own affair, but no two overlap.
  const runs = [...ends].toSorted(([a], [b]) => (a < b ? -1 : 1));
  for (const [at, [, end]] of runs.entries()) expect(runs[at + 1]?.[0] ?? end).toBeGreaterThanOrEqual(end);
  return log;
}

async function agree(limit: number, runs: number): Promise<void> {
  // One connection each, so that the order of the steps is the order of the answers.
  const [real, reference] = [testClients.backend(server.port), testClients.own(memory())];
  await fc.assert(
    fc.asyncProperty(kinds, fc.array(step, { maxLength: 40 }), async (modes, steps) => {
      const name = claimOf().name;
      const claims = modes.map((kind) =>
        claimOf({
          name,
          mode: kind === "shared" ? "shared" : "exclusive",
          limit: kind === "shared" ? 1 : limit,
          queues: kind !== "try",
        }),
      );
      expect(await play(real, claims, steps)).toEqual(await play(reference, claims, steps));
    }),
    { numRuns: runs },
  );
}

test("answers as the reference backend does, whatever happens in whatever order", () => agree(1, 300), 60_000);
test("answers as the reference backend does with a limit of three", () => agree(3, 200), 60_000);
