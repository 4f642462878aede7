/**
 * The marker of a server's incarnation against its rules, on a clock of the test's own: random histories of processes that ask for
 * quarantines, of losses and of operators. After each step the whole marker and its end must be as the rules say, and so every answer.
 */
import "../../fixed-seed.ts";
import fc from "fast-check";
import type { Redis } from "ioredis";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type RedisServer, startRedis } from "../../../src/lab/servers/redis.ts";
import * as generated from "../../../src/backends/redis/generated/scripts.ts";
import { Clocked } from "./clocked.ts";
import type { RedisBackend } from "../../../src/backends/redis/index.ts";
import { namesOf } from "../../../src/backends/redis/keys.ts";
import { claimOf, Clients, rivalOf } from "./lab.ts";

const DAY = 86_400_000;
/** How long a marker is kept, and from when on a call makes that anew. */
const KEPT = 30 * DAY;
const TERMS = '.x 000000060000 000000 000003600000 1 60000 0 0 0 inbox:x ["me",{}]';

let server: RedisServer;
let clients: Clients;
let client: Redis;
let clocked: Clocked;
/** What the server says of itself. */
const self = { run: "", history: "" };

beforeAll(async () => {
  server = await startRedis();
  clients = new Clients();
  client = clients.client(server.port);
  clocked = new Clocked(client, "marked:clock");
  await clocked.load();
  const info = await client.info();
  for (const [field, name] of [
    ["run", "run_id"],
    ["history", "master_replid"],
  ] as const)
    self[field] = new RegExp(`\n${name}:[0-9a-f]+\r`).exec(info)![0];
});
afterAll(async () => {
  await clients[Symbol.asyncDispose]();
  await server.stop();
});

interface Mark {
  run: string;
  history: string;
  readonly who: string;
  readonly born: string;
  readonly since: number;
  span: number;
  death: number;
}

/** What the marker should be. */
class Model {
  mark: Mark | undefined;
  /** It outlives the mark. */
  lag: number | undefined;
  now = 0;
  born = "";

  get #isLost(): boolean {
    return this.mark?.run !== self.run || this.mark.history !== self.history;
  }

  make(since: number, span: number, now = this.now): Mark {
    // Behind "\nrun_id:".
    const who = self.run.slice(8, 28);
    this.mark = { ...self, who, born: this.born, since, span, death: now + KEPT };
    return this.mark;
  }

  /** For how long nothing may be granted, when a process asks for that quarantine. */
  young(asked: number, lag?: number): number {
    const { mark, now } = this;
    if (mark === undefined && asked === 0) return 0;
    if (lag !== undefined) this.lag = Math.min(this.lag ?? Infinity, lag);
    const span = Math.max(asked, mark?.span ?? 0);
    if (this.#begins(span)) {
      this.make(now, span);
      return span;
    }
    mark!.span = span;
    if (mark!.death - now < KEPT / 2) mark!.death = now + KEPT;
    return Math.max(0, mark!.since + span - now);
  }

  /** The same, for those who only look. */
  rest(asked: number): number {
    if (this.mark === undefined && asked === 0) return 0;
    const span = Math.max(asked, this.mark?.span ?? 0);
    return this.#begins(span) ? span : Math.max(0, this.mark!.since + span - this.now);
  }

  /** Who never asked for a quarantine needs no look at the server. After the clock was set back it would last too long. */
  #begins(span: number): boolean {
    return this.mark === undefined || this.mark.since > this.now || (span > 0 && this.#isLost);
  }

  meet(asked: number): readonly [string, string] {
    const before = String(this.mark?.span ?? -1);
    this.young(asked);
    if (this.mark === undefined || (before === "0" && asked === 0 && this.#isLost)) this.make(this.now, 0);
    return [this.mark!.who, before];
  }

  get fields(): Record<string, string> {
    const { mark, lag } = this;
    if (mark === undefined) return {};
    const texts = Object.entries({ ...mark, db: "0", ...(lag === undefined ? {} : { lag }) });
    return Object.fromEntries(texts.map(([field, value]) => [field, String(value)]));
  }
}

const step = fc.record({
  what: fc.constantFrom(
    ..."attempt attempt vote meet beat inspect inspect attempt vote beat end lose time time time back days".split(" "),
  ),
  asked: fc.constantFrom(0, 0, 1000, 5000, 9000),
  lag: fc.constantFrom(undefined, 2, 5, 9),
  beside: fc.constantFrom(-1, 0, 1),
  micros: fc.constantFrom(0, 7, 999),
});
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;

let plays = 0;
let nowMs = Date.now() + 40 * DAY;

function play(steps: readonly Step[]): Promise<unknown>[] {
  const marker = `marked:{${plays++}}`;
  const model = new Model();
  let locks = 0;
  const goTo = (ms: number, micros: number): void => {
    model.now = ms;
    const [seconds, us] = [Math.floor(ms / 1000), (ms % 1000) * 1000 + micros];
    model.born = `${seconds}.${us}`;
    clocked.set(seconds, us);
  };
  // Where the clock was set back it goes on from there, and the next history begins behind all of this.
  goTo((nowMs += 2 * DAY), 0);
  const act = ({ what, asked, lag, beside, micros }: Step): readonly [unknown, Promise<unknown>] => {
    const lock = `${marker}:${locks++}`;
    const text = asked === 0 ? "0" : `${asked} ${lag ?? 60}`;
    const [age, mark] = [asked === 0 ? undefined : (lag ?? 60), model.mark];
    switch (what) {
      case "attempt": {
        const young = model.young(asked, age);
        const reply = clocked.run(generated.attempt, [lock, marker], ["id", TERMS, ...(asked === 0 ? [] : [text])]);
        const read = (all: unknown): unknown =>
          Array.isArray(all) ? (all as unknown[]).slice(0, 4) : /^\d+\+0+$/.test(String(all));
        return [young === 0 ? true : [0, young, String(model.now), "young"], reply.then(read)];
      }
      case "vote": {
        const young = model.young(asked);
        const { who } = model.mark ?? model.make(model.now, 0);
        const args = ["id", TERMS.replace(".", "v"), `0000000000000005 ${asked}`];
        const said = young === 0 ? `${model.now} ${who}` : ["young", String(model.now), who, String(young)];
        return [said, clocked.run(generated.vote, [lock, marker], args)];
      }
      case "meet":
        return [model.meet(asked), clocked.run(generated.meet, [marker], [String(asked)])];
      case "beat":
        model.young(asked, age);
        return [[], clocked.run(generated.beat, [marker], ["0", text])];
      case "inspect": {
        const args = asked === 0 ? [] : [text];
        return [[String(model.now), String(model.rest(asked))], clocked.run(generated.inspect, [lock, marker], args)];
      }
      case "end": {
        model.lag = lag;
        // The quarantine of that operator counts, even where a longer one was asked for.
        model.make(0, asked, model.now - (model.now % 1000));
        const args = [String(asked), ...(lag === undefined ? [] : [String(lag)])];
        return [1, clocked.run(generated.endQuarantine, [marker], args)];
      }
      case "lose": {
        if (mark === undefined) return [0, Promise.resolve(0)];
        const field = beside === 0 ? "run" : "history";
        mark[field] = "\nother:1\r";
        return [0, client.hset(marker, field, mark[field])];
      }
      default: {
        const end = mark === undefined || mark.since === 0 ? model.now : mark.since + mark.span;
        const days = mark === undefined ? model.now : mark.death - KEPT / 2;
        const to = what === "back" ? model.now - 3000 : Math.max(model.now, what === "days" ? days : end);
        goTo(to + (what === "back" ? 0 : beside + 1), micros);
        nowMs = Math.max(nowMs, model.now);
        return [0, Promise.resolve(0)];
      }
    }
  };
  return steps.map(async (one) => {
    const [expected, answer] = act(one);
    const wanted = { answer: expected, fields: model.fields, death: model.mark?.death ?? -2 };
    const looks = [answer, client.hgetall(marker), client.call("PEXPIRETIME", marker)] as const;
    const [said, fields, death] = await Promise.all(looks);
    expect({ answer: said, fields, death }, JSON.stringify(one)).toEqual(wanted);
  });
}

test("a marker keeps the longest quarantine and the shortest silence that any process asked for, from when the server forgot", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 40 }), async (steps) => {
      const done = await Promise.allSettled(play(steps));
      for (const one of done) if (one.status === "rejected") throw one.reason;
    }),
    { numRuns: 120 },
  );
}, 240_000);

const marker = namesOf("holdfast", false).markers()[0]!;
const marksIn = (dbs: readonly number[]): Promise<unknown> =>
  Promise.all(dbs.map((db) => clients.client(server.port, { db }).hmget(marker, "db", "run")));
async function memberIn(db: number): Promise<RedisBackend> {
  const member = clients.backend(server.port, {}, { db });
  await member.join({ quarantineMs: 30_000, allowEviction: false });
  await member.endQuarantine();
  return member;
}

test.each([
  [3, 5, 0],
  [0, 3, 9],
])(
  "SWAPDB: a marker that is elsewhere now (%i, %i, %i) is superseded, and says nothing when it comes back",
  async (...dbs) => {
    const [here, there, away] = dbs;
    const member = await memberIn(here);
    await client.swapdb(here, there);
    await client.swapdb(there, away);
    const claim = claimOf();
    expect(await member.vote(claim, 5n)).toMatchObject({ vote: "recovering" });
    expect(await marksIn(dbs)).toEqual([
      [String(here), self.run],
      [null, null],
      [String(here), "superseded\n"],
    ]);
    await member.endQuarantine();
    expect(await member.vote(claim, 6n)).toMatchObject({ vote: "granted" });
    await client.swapdb(away, here);
    expect(await member.vote(rivalOf(claim), 7n)).toMatchObject({ vote: "recovering" });
    await client.flushall();
  },
);

test("SWAPDB: where both have a marker, each is made anew where the locks are, and the other's stays", async () => {
  const [here, there] = [3, 5];
  const member = await memberIn(here);
  await memberIn(there);
  await client.swapdb(here, there);
  expect(await member.vote(claimOf(), 5n)).toMatchObject({ vote: "recovering" });
  expect(await marksIn([here, there])).toEqual([
    [String(here), self.run],
    [String(here), "superseded\n"],
  ]);
  await client.flushall();
});
