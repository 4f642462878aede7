/** A vote is a server's and not a name's: names may lead to another server after a reconnect (DNS, NAT, a virtual address). */
import { Redis } from "ioredis";
import { afterEach, describe, expect, test, vi } from "vitest";
import type { Backend, Claim, Member, Vote } from "../../../src/contract/backend.ts";
import { type RedisServer, startRedis } from "../../../src/lab/servers/redis.ts";
import { initMembers, quorum, type QuorumOptions } from "../../../src/backends/quorum/index.ts";
import { redis } from "../../../src/backends/redis/index.ts";
import { PASSWORD } from "../../login.ts";
import { granted } from "./proxied-servers.ts";
import { newClaim } from "./servers.ts";
import { failure, fakeQuorum } from "./fake-members.ts";

const opened: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of opened.splice(0).toReversed()) await close();
});

/** A name that may lead to another server from the next connection on. */
class Name {
  readonly member: Member;
  readonly #client: Redis;

  constructor({ port }: RedisServer) {
    this.#client = new Redis({
      port,
      host: "127.0.0.1",
      password: PASSWORD,
      maxRetriesPerRequest: null,
      retryStrategy: () => 20,
    });
    this.#client.on("error", () => undefined);
    opened.push(() => this.#client.disconnect());
    this.member = redis(this.#client);
  }

  /** As when an idle connection was cut and the name has changed meanwhile: no request is sent until it is back. */
  async leadTo({ port }: RedisServer): Promise<void> {
    this.#client.options.port = port;
    const back = new Promise((resolve) => this.#client.once("ready", resolve));
    this.#client.disconnect(true);
    await back;
  }
}

interface Scene {
  readonly servers: readonly RedisServer[];
  readonly names: readonly Name[];
  readonly backend: Backend;
}

async function scene(options: QuorumOptions): Promise<Scene> {
  const servers = await Promise.all([startRedis(), startRedis(), startRedis()]);
  for (const server of servers) opened.push(() => server.stop());
  const names = servers.map((server) => new Name(server));
  const members = names.map(({ member }) => member);
  await initMembers(members, options);
  const backend = quorum(members, { memberWait: "1s", ...options });
  opened.push(() => backend.close());
  const claim = newClaim({ name: "warm" });
  await vi.waitFor(() => granted(backend, claim), 120_000);
  await vi.waitFor(() => backend.release(claim), 120_000);
  return { servers, names, backend };
}

async function holds(backend: Backend, claim: Claim): Promise<boolean | "unknown"> {
  return (await backend.renew([claim]))[0]!.held;
}

describe.each<[string, QuorumOptions]>([
  ["members that may forget", {}],
  ["durable members", { durable: true }],
])("S158: two names lead to one server, and the third is unreachable (%s)", (_, options) => {
  test("its vote counts once, so there is no second holder", async () => {
    const { servers, names, backend } = await scene(options);
    // Another claim holds the first and the third server.
    const rival = newClaim({ name: "lock", holder: "rival:1", ttlMs: 30_000 });
    for (const at of [0, 2]) {
      const { member } = new Name(servers[at]!);
      expect((await member.vote(rival, BigInt(Date.now()) * 1000n)).vote).toBe("granted");
    }
    await names[2]!.leadTo(servers[1]!);
    servers[0]!.pause();
    opened.push(() => servers[0]!.resume());
    // A busy machine may need a second attempt; none may be granted.
    const error = await vi.waitFor(async () => {
      const failed = await failure(backend.attempt(newClaim({ name: "lock" })));
      expect(failed.votes.map(({ vote }) => vote)).toEqual(["slow", "granted", "twin"]);
      return failed;
    }, 180_000);
    expect(error.message).toContain("redis#3 no server of its own (it leads to the same server as redis#2)");
    expect(error.fatal).toBe(false);
    // The name leads to its own server again: nothing has to be opened anew.
    servers[0]!.resume();
    await names[2]!.leadTo(servers[2]!);
    const free = newClaim({ name: "free" });
    await vi.waitFor(() => granted(backend, free), 120_000);
  });

  test("its renewal counts once, so the holder stops believing", async () => {
    const { servers, names, backend } = await scene(options);
    const claim = newClaim({ name: "lock", ttlMs: 30_000 });
    await vi.waitFor(() => granted(backend, claim), 120_000);
    await vi.waitFor(async () => expect(await holds(backend, claim)).toBe(true), 120_000);
    await names[2]!.leadTo(servers[1]!);
    servers[0]!.pause();
    opened.push(() => servers[0]!.resume());
    expect(await holds(backend, claim)).toBe("unknown");
    servers[0]!.resume();
    await vi.waitFor(async () => expect(await holds(backend, claim)).toBe(true), 120_000);
  });
});

test("S141: one server listed twice is refused once both names have answered, in any order", async () => {
  for (const [early, late] of [
    [1, 2],
    [2, 1],
  ] as const) {
    const { fakes, open } = fakeQuorum(3);
    let comesLate = (): void => undefined;
    const isThere = new Promise<void>((resolve) => (comesLate = resolve));
    for (const [at, { member }] of fakes.entries()) {
      const vote = member.vote.bind(member);
      const id = at === 0 ? "a" : "b";
      let asked = 0;
      member.join = async () => {
        if (at === late) await isThere;
        return { id };
      };
      member.vote = async (claim, ballot): Promise<Vote> => {
        asked++;
        // In doubt just when its other name comes.
        if (at === early && asked === 1) throw new Error("connection reset");
        return { ...(await vote(claim, ballot)), from: id };
      };
    }
    const backend = open({ memberWait: 100, labels: ["one", "two", "two-again"] });
    const first = backend.attempt(newClaim()).catch(() => undefined);
    for (let turns = 0; turns < 50; turns++) await Promise.resolve();
    comesLate();
    await first;
    const error = await failure(backend.attempt(newClaim()));
    expect(error.message).toMatch(/two(-again)? cannot be a member of this quorum: it is the same store as two/);
    expect(error.fatal).toBe(true);
  }
});
