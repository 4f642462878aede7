/**
 * The scripts on a clock of the test's own: random histories, in which time goes on to the very instants that matter and to those
 * beside them. Every answer and every end must be as a small model of the rules says (model-lock.ts), to the millisecond and to the
 * fence; after each step the hash must be well-formed: its counts count what is there, and its queue has neither holes nor strangers.
 * Both ways through the scripts are played: the short ones, and, where there is a marker, the long one.
 */
import "../../fixed-seed.ts";
import fc from "fast-check";
import type { Redis } from "ioredis";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type RedisServer, startRedis } from "../../../src/lab/servers/redis.ts";
import { write } from "../../../src/backends/redis/columns.ts";
import * as generated from "../../../src/backends/redis/generated/scripts.ts";
import { TERMS } from "../../../src/backends/redis/wire.ts";
import { Clocked } from "./clocked.ts";
import { Clients } from "./lab.ts";
import { type Held, ModelLock, type Terms } from "./model-lock.ts";

/** Longer than all that a history lets pass behind its last end, and not even. */
const IDLE = 60_001;
const FORCED_KEEP = 50_000;
const [HEARD, DEAF] = ["timed:heard", "timed:deaf"];
const MARKER = "timed:marker";

let server: RedisServer;
let clients: Clients;
let client: Redis;
let inbox: Redis;
let messages: string[] = [];
let clocked: Clocked;

beforeAll(async () => {
  server = await startRedis();
  clients = new Clients();
  client = clients.client(server.port);
  inbox = clients.client(server.port);
  inbox.on("message", (_, text: string) => messages.push(text));
  await inbox.subscribe(HEARD);
  // A lock's own channel. By a pattern, which is not counted as one who listens for its release.
  inbox.on("pmessage", (_, __, text: string) => messages.push(text));
  await inbox.psubscribe("timed:{aa}:*");
  clocked = new Clocked(client, "timed:clock");
  await clocked.load();
});
afterAll(async () => {
  await clients[Symbol.asyncDispose]();
  await server.stop();
});

const run = (script: generated.Script, keys: readonly string[], args: readonly string[]): Promise<unknown> =>
  clocked.run(script, keys, args);

const textOf = ({ mode, limit, ttl, delay, ticket, minhold, more, heard, wants, who }: Terms, voted = false): string =>
  write(TERMS, {
    flag: minhold === 0 ? (voted ? "v" : ".") : voted ? "w" : "!",
    mode,
    keep: ttl + delay,
    more,
    idle: IDLE,
    limit,
    ttl,
    delay,
    ticket,
    minhold,
    inbox: heard ? HEARD : DEAF,
    who: wordsOf(who, wants),
  });
const wordsOf = (who: string, wants: boolean): string => `["${who}",{}]${wants ? " " : ""}`;

interface Seen {
  readonly holders: string[];
  /** Whose time is over. One may leave sooner than the rules say. */
  readonly over: string[];
  readonly queue: string[];
  readonly outcome: string;
  readonly forced: string[];
  readonly death: number;
}

const NONE: Seen = { holders: [], over: [], queue: [], outcome: "", forced: [], death: 0 };

/** What stands in the hash, read without any of our own code; and whether it may stand there. */
function readHash(hash: Readonly<Record<string, string>>, expiryMs: number, now: number, limit: number): Seen {
  const { s } = hash;
  if (s === undefined) {
    expect(hash).toEqual({});
    return NONE;
  }
  const [, last, death, more = ""] = /^(\d{16}) (\d{13})(?: (.*))?$/s.exec(s)!;
  expect(Number(death)).toBe(expiryMs);
  const record = (text: string): { till: number; since: number; number: number; terms: string } => {
    const [, till, since, number, terms] = /^(\d{13}) (\d{13}) (\d{16}) (.*)$/s.exec(text)!;
    return { till: Number(till), since: Number(since), number: Number(number), terms: terms! };
  };
  const moreOf = (terms: string): number => Number(terms.split(" ")[2]);
  const named = (start: string): [string, string][] =>
    Object.entries(hash).flatMap(([field, value]) => (field.startsWith(start) ? [[field.slice(1), value]] : []));
  const [all, waiters, places] = [named("h"), named("w"), named("q")] as const;
  const alone = /^=(\S+) (.*)$/s.exec(more);
  if (alone !== null) {
    expect([all, waiters, places]).toEqual([[], [], []]);
    all.push([alone[1]!, alone[2]!]);
    expect(record(alone[2]!).terms).toMatch(/^.x \d+ \d+ \d+ 1 /);
  } else if (more === "") {
    expect([all, waiters, places, hash["e"]]).toEqual([[], [], [], undefined]);
  } else {
    const [n, mode, atMost, first, latest, queued, head, tail] = more.split(" ") as string[];
    // Once the first has ended, the next call counts anew.
    if (Number(first) > now) expect(Number(n)).toBe(all.length);
    else expect(Number(n)).toBeGreaterThanOrEqual(all.length);
    for (const [, text] of all) {
      expect(Number(first)).toBeLessThanOrEqual(record(text).till);
      expect(record(text).terms[1]).toBe(mode);
    }
    if (latest !== "-" && Number(first) > now) expect(hash).toHaveProperty(`h${latest}`);
    const exclusive = [...all, ...waiters].some(([, text]) => record(text).terms[1] === "x");
    if (exclusive) expect(Number(atMost)).toBe(limit);
    expect(Number(queued)).toBe(waiters.length);
    // Every place from the head to the tail is a claim's, or in a gap that says where it ends.
    const left = new Set(places.map(([place]) => Number(place)));
    for (let place = Number(head); place <= Number(tail); place++) {
      const text = hash[`q${place}`]!;
      left.delete(place);
      if (!text.startsWith(" ")) {
        expect(record(hash[`w${text}`]!).number).toBe(place);
        continue;
      }
      const end = Number(text);
      expect([place > Number(head), end >= place, end < Number(tail)]).toEqual([true, true, true]);
      expect(Number(hash[`q${end}`])).toBe(place);
      left.delete(end);
      place = end;
    }
    expect([...left]).toEqual([]);
    if (waiters.length === 0) expect([Number(head) - Number(tail), places.length]).toEqual([1, 0]);
  }
  // No fence twice, none above the last, and the hash outlives all that counts.
  const runs = all.map(([, text]) => record(text)).toSorted((a, b) => a.number - b.number);
  for (const [at, { number, terms, till }] of runs.entries()) {
    const end = number + moreOf(terms);
    expect(end).toBeLessThan(runs[at + 1]?.number ?? Infinity);
    expect(end).toBeLessThanOrEqual(Number(last));
    expect(Number(death)).toBeGreaterThanOrEqual(till + IDLE);
  }
  for (const [, text] of waiters) expect(Number(death)).toBeGreaterThanOrEqual(record(text).till + IDLE);
  if (hash["r"] !== undefined) expect(Number(death)).toBeGreaterThanOrEqual(Number(hash["r"].slice(0, 13)) + IDLE);
  expect(Object.keys(hash).filter((field) => !/^(?:[sbre]$|[hwqof].)/.test(field))).toEqual([]);
  const textsOf = (isOver: boolean): string[] =>
    all
      .map(([id, text]) => ({ id, ...record(text) }))
      .filter(({ till }) => till <= now === isOver)
      .map(({ id, till, since, number, terms: words }) => `${id} ${till} ${since} ${number} ${words}`)
      .toSorted();
  return {
    holders: textsOf(false),
    over: textsOf(true),
    queue: waiters
      .map(([id, text]) => ({ id, ...record(text) }))
      .toSorted((a, b) => a.number - b.number)
      .map(({ id, till, since, terms }) => `${id} ${till} ${since} ${terms}`),
    outcome: hash["r"] !== undefined && Number(hash["r"].slice(0, 13)) > now ? hash["r"] : "",
    forced: [...named("o"), ...named("f")].map(([of, text]) => `${of}: ${text}`).toSorted(),
    death: Number(death),
  };
}

const ofModel = (model: ModelLock): Seen => ({
  holders: textsOf(model, false),
  over: textsOf(model, true),
  queue: model.queue.map(({ id, till, since, terms }) => `${id} ${till} ${since} ${textOf(terms)}`),
  outcome: model.hasOutcome ? outcomeOf(model) : "",
  forced: [
    ...[...model.forced].map(([fence, { at, id }]) => `${fence}: ${at} ${id} ${OPS}`),
    ...[...model.forcedFence].map(([id, fence]) => `${id}: ${fence}`),
  ].toSorted(),
  death: model.death,
});

const textsOf = ({ holders, now }: ModelLock, isOver: boolean): string[] =>
  holders
    .filter(({ till }) => till <= now === isOver)
    .map(({ id, kept, ...held }) => `${kept ? "~" : ""}${id} ${recordOf(held)}`)
    .toSorted();
const recordOf = ({ till, since, fence, more, terms, voted }: Omit<Held, "id" | "kept">): string =>
  `${till} ${since} ${fence} ${textOf({ ...terms, more }, voted)}`;
const outcomeOf = ({ outcome }: ModelLock): string =>
  `${outcome!.over} ${outcome!.left} ${padded(outcome!.fence)} ${outcome!.id} ["me"] value`;
const padded = (fence: number): string => String(fence).padStart(16, "0");

const WHATS =
  "attempt attempt attempt attempt release release swap renew renew force steal finish beat forget time time time";
const VOTES = "vote vote vote vote withdraw release renew force recall want time time";
/** Only one claim ever asks, so that the lock is mostly written down in its shortest form. */
const CALM = "attempt attempt attempt renew renew renew release release steal beat finish time time time";
const stepOf = (whats: string, most = 5) =>
  fc.record({
    what: fc.constantFrom(...whats.split(" ")),
    who: fc.nat(most),
    other: fc.nat(most),
    keeps: fc.boolean(),
    /** Which end time goes on to, and how far from it. */
    which: fc.nat(12),
    beside: fc.constantFrom(-1, 0, 0, 1, 400),
    micros: fc.constantFrom(0, 7, 999, 1_000, 50_000, 999_999),
  });
const terms = (limit: number): fc.Arbitrary<Terms> =>
  fc
    .record({
      mode: fc.constantFrom("x" as const, "x" as const, "x" as const, "s" as const),
      ttl: fc.constantFrom(10_000, 30_000),
      delay: fc.constantFrom(0, 0, 5000),
      ticket: fc.constantFrom(0, 4000, 10_000, 10_000),
      minhold: fc.constantFrom(0, 0, 3000),
      more: fc.constantFrom(0, 63, 999),
      heard: fc.boolean(),
      wants: fc.constantFrom(false, false, true),
      who: fc.constant("me"),
    })
    .map((one) => ({
      ...one,
      limit: one.mode === "s" ? 1 : limit,
      more: one.mode === "s" || limit > 1 ? 0 : one.more,
    }));

type Step = ReturnType<typeof stepOf> extends fc.Arbitrary<infer S> ? S : never;
let locks = 0;
/** Years ahead, so that no key passes by the server's own clock. */
let nowMs = Date.now() + 40 * 86_400_000;

/** Everything that is compared after one step: what the model said then, and what the store will have said. */
interface Look {
  readonly step: unknown;
  readonly nowMs: number;
  readonly expected: unknown;
  readonly answer: Promise<unknown>;
  readonly state: Seen;
  readonly hash: Promise<Record<string, string>>;
  readonly expiryMs: Promise<number>;
  /** For how much longer nothing is granted, as those learn who only look. */
  readonly restMs: number;
  readonly inspected: Promise<unknown>;
  readonly peeked: Promise<unknown>;
  readonly news: News;
}

interface News {
  readonly granted: string[];
  readonly done: string[];
  readonly wanted: string[];
  readonly freed: number;
}

/** A whole history is sent at once: no step needs the answer to the one before it, since the model knows it. */
class Play {
  readonly #model = new ModelLock(IDLE);
  readonly #key = `timed:{aa}:${locks++}`;
  readonly #keys: string[];
  readonly #limit: number;
  readonly #ids: string[];
  readonly #terms: readonly Terms[];
  readonly #marker: Marker;
  #made = 0;

  constructor(limit: number, claims: readonly Terms[], marker: Marker) {
    this.#limit = limit;
    this.#terms = claims;
    this.#ids = claims.map((_, at) => this.#newId(at));
    this.#keys = [this.#key, marker === "none" ? `${MARKER}:none` : MARKER];
    this.#marker = marker;
  }

  #newId(at: number): string {
    // Messages show the first eight.
    return `${at}.${String(this.#made++).padStart(6, "0")}`.padEnd(22, "x");
  }

  #setTime(ms: number, micros: number): void {
    nowMs = Math.max(nowMs, ms);
    const seconds = Math.floor(nowMs / 1000);
    const us = (nowMs % 1000) * 1000 + (micros % 1000);
    this.#model.now = nowMs;
    this.#model.nowUs = seconds * 1_000_000 + us;
    clocked.set(seconds, us);
  }

  /** A grant as it is answered, or why not, and what the claim learns. */
  #said(held: Held | "done" | undefined, id: string): unknown {
    const model = this.#model;
    if (held !== undefined && held !== "done") return `${held.fence}+${held.more}${model.isWanted(held) ? "*" : ""}`;
    const now = String(model.now);
    if (held === "done") return { place: 0, ahead: 0, now, record: "done", learned: outcomeOf(model) };
    const place = model.queue.findIndex((one) => one.id === id) + 1;
    const restMs = model.youngUntil - model.now;
    const records = model.holders.map(recordOf);
    // No later than the first end, and mostly then.
    const ahead = restMs > 0 ? restMs : Math.max(0, Math.min(...model.holders.map(({ till }) => till)) - model.now);
    const why = restMs > 0 ? "young" : records.length === 0 ? "" : { oneOf: records };
    const learned = place === 0 ? undefined : { last: padded(model.last), isHead: place === 1, by: this.#by };
    return { place, ahead: records.length === 0 && restMs <= 0 ? 0 : ahead, now, record: why, learned };
  }

  get #by(): boolean {
    return this.#marker !== "none";
  }

  /** Who was ended by force learns by whom. */
  #goneText(id: string): string {
    const fence = this.#model.forcedFence.get(id);
    const forced = fence === undefined ? undefined : this.#model.forced.get(fence);
    return forced === undefined ? "gone " : `gone ${forced.at} ${forced.id} ${OPS}`;
  }

  /** What the model says to a step, and what the script will say. */
  #step({ what, who: any, other, keeps, which, beside, micros }: Step): readonly [unknown, Promise<unknown>] {
    // What ends or lasts is mostly a lease that there is, or was until now.
    const known = new Set(this.#model.holders.filter(({ kept }) => !kept).map(({ id }) => id));
    const holders = this.#ids.flatMap((one, at) => (known.has(one) ? [at] : []));
    const isOfHolder =
      which % 3 > 0 && holders.length > 0 && /release|swap|renew|finish|withdraw|steal|beat/.test(what);
    const who = isOfHolder ? holders[any % holders.length]! : any;
    const [model, keys, id] = [this.#model, this.#keys, this.#ids[who]!];
    // Sometimes one that queued asks once more without queueing.
    const its = what === "attempt" && other === 5 ? { ...this.#terms[who]!, ticket: 0 } : this.#terms[who]!;
    const kept = keeps && its.minhold > 0;
    const marked = (one: string, is: boolean): string => (is ? `${one}!` : one);
    const isNew = other > 0;
    switch (what) {
      case "attempt":
        return [this.#said(model.attempt(id, its), id), run(generated.attempt, keys, [id, textOf(its)])];
      case "release":
        // An id holds one lease in its life; sometimes it is released once more.
        if (isNew) this.#ids[who] = this.#newId(who);
        return [model.release(id, kept), run(generated.release, keys, [marked(id, kept)])];
      case "swap": {
        const [next, theirs] = [this.#ids[other]!, this.#terms[other]!];
        if (who === other) return [0, Promise.resolve(0)];
        this.#ids[who] = this.#newId(who);
        const [was, held] = model.swap(id, kept, next, theirs);
        return [[was, this.#said(held, next)], run(generated.swap, keys, [next, textOf(theirs), marked(id, kept)])];
      }
      case "renew": {
        // Two of one lock in one call, mostly. Sometimes it has to be the same lease, and sometimes a process says something new.
        const keep = its.ttl + its.delay + (keeps ? 7000 : 0);
        const all = other === who ? [id] : [id, this.#ids[other]!];
        const fenced = which % 4 === 1;
        const who2 = which % 4 === 2 ? `me${which}` : undefined;
        const fences = all.map((one, at) => (model.find(one)?.fence ?? 5) + (at === 0 && beside === 1 ? 1 : 0));
        const words = all.map((one) =>
          who2 === undefined ? undefined : wordsOf(who2, model.find(one)?.terms.wants ?? false),
        );
        const said = all.map((one, at) => {
          const held = model.renew(one, keep, fenced ? fences[at] : undefined, who2);
          return held === undefined ? this.#goneText(one) : held === "other" ? held : model.isWanted(held) ? 2 : 1;
        });
        const asksWho = this.#by && micros > 7;
        const args = [`${all.join(" ")} `, String(keep), String(IDLE), keys[1]!, asksWho ? "who" : ""];
        args.push(fenced ? fences.map((fence) => `${padded(fence)} `).join("") : "");
        for (const word of words) if (word !== undefined) args.push(word);
        const names = [...all.map(() => keys[0]!), ...(asksWho ? [keys[1]!] : [])];
        const expected = said.every((one) => one === 1)
          ? asksWho
            ? "who"
            : 1
          : [...said, ...(asksWho ? ["who"] : [])];
        return [expected, run(generated.renew, names, args)];
      }
      case "force": {
        const hit = model.holders[other % Math.max(1, model.holders.length)];
        const fence = hit === undefined ? 5 : hit.fence + (keeps ? hit.more : 0);
        return [
          model.force(fence, FORCED_KEEP) ? 1 : 0,
          run(generated.force, keys, [String(fence), OPS, String(FORCED_KEEP)]),
        ];
      }
      case "steal": {
        const reply = run(generated.steal, keys, [id, textOf(its), OPS, String(FORCED_KEEP)]);
        return [this.#said(model.steal(id, its, FORCED_KEEP), id), reply];
      }
      case "finish": {
        // Mostly of the lease under which the work was done.
        const fence = (which % 6 === 0 ? undefined : model.find(id)?.fence) ?? model.outcome?.fence ?? 5;
        const args = [marked(id, kept), "20000", String(fence).padStart(16, "0"), '["me"]', "value"];
        if (other > 2) this.#ids[who] = this.#newId(who);
        return [
          model.finish(id, kept, 20_000, fence),
          run(generated.finish, keys, args).then((all) => (all as [number])[0]),
        ];
      }
      case "forget": {
        const fence = keeps ? (model.outcome?.fence ?? 5) : 7;
        return [model.forget(fence) ? 1 : 0, run(generated.forget, [keys[0]!], [String(fence).padStart(16, "0")])];
      }
      case "beat": {
        const said = model.beat(id);
        const learned = { last: padded(model.last), isHead: model.queue[0]?.id === id, by: this.#by };
        const expected = said === undefined ? "-" : said === "queued" ? learned : this.#said(said, id);
        const reply = run(generated.beat, keys, ["1", "0", id]) as Promise<[string]>;
        return [expected, reply.then(([one]) => one)];
      }
      case "vote": {
        const ballot = Math.max(1, model.last + [0, 1, 2, 50, -1, 1][other]!);
        const args = [id, textOf({ ...its, more: 0 }, true), `${String(ballot).padStart(16, "0")} 0`];
        const now = String(model.now);
        const read = (reply: unknown): unknown => {
          // No connection listens for the release of this lock: none is counted.
          if (typeof reply === "string") return /^\d+ [0-9a-f]{20}$/.test(reply.replace(now, "5")) ? "granted" : reply;
          const [vote, at, , detail, waiters] = reply as [string, string, string, string, number];
          if (at !== now) return at;
          return vote === "low" ? Number(detail) : { record: isOneOf(detail, held), waiters };
        };
        const vote = model.vote(id, { ...its, more: 0 }, ballot);
        // Where several may hold it, the one that is known to be there may have left.
        const one = its.mode === "x" && this.#limit === 1 && model.holders.every(({ terms: { mode } }) => mode === "x");
        const held = { oneOf: [...model.holders.map(recordOf), ...(one ? [] : [""])] };
        const expected = vote === "held" ? { record: held, waiters: 0 } : vote;
        return [expected, run(generated.vote, keys, args).then(read)];
      }
      case "recall": {
        const found = model.find(id);
        const said = found === undefined ? 0 : `${id} ${padded(found.fence)}`;
        return [said, run(generated.recall, [keys[0]!], [id.slice(0, keeps ? 8 : 22)])];
      }
      case "want": {
        // Of those whose time is over nothing is promised.
        if (model.holders.some(({ till }) => till <= model.now)) return [0, Promise.resolve(0)];
        model.want();
        return [model.holders.length > 0 ? 1 : 0, run(generated.want, [keys[0]!], [])];
      }
      case "withdraw":
        if (isNew) this.#ids[who] = this.#newId(who);
        return [model.withdraw(id), run(generated.withdraw, keys, [id])];
      default: {
        const ends = [...model.holders, ...model.queue].map(({ till }) => till).filter((till) => till > model.now);
        if (model.youngUntil > model.now) ends.push(model.youngUntil);
        if (model.hasOutcome) ends.push(model.outcome!.over);
        for (const { at } of model.forced.values()) if (at + FORCED_KEEP > model.now) ends.push(at + FORCED_KEEP);
        const end = ends.length === 0 ? model.now : ends.toSorted((a, b) => a - b)[which % ends.length]!;
        // Or only to the next millisecond, or to the last one of this second: fences are made of the clock, and get ahead of it.
        const next = which === 12 ? model.now + 1 : which === 11 ? model.now - (model.now % 1000) + 999 : end + beside;
        this.#setTime(next, micros);
        // Whose ticket has lapsed loses its place when the next call comes: a call for a claim that there is not. Without a queue
        // such a call is only sometimes made, because it changes how the lock is written down.
        if (model.queue.length === 0 && keeps) return [0, Promise.resolve(0)];
        const stranger = this.#newId(9);
        return [model.release(stranger, false), run(generated.release, keys, [stranger])];
      }
    }
  }

  #look(step: Step, at: number): Look {
    const [expected, answer] = this.#step(step);
    const model = this.#model;
    model.end();
    const { handed, done, wanted, freed } = model;
    Object.assign(model, { handed: [], done: [], wanted: [], freed: 0 });
    const shown = (id: string): string => id.slice(0, 8);
    const news = {
      granted: handed
        .map(({ held, hears }) => `${shown(held.id)}:${held.fence}+${held.more}${hears ? "*" : ""}`)
        .toSorted(),
      done: done.map(shown).toSorted(),
      wanted: wanted.map(shown).toSorted(),
      freed,
    };
    const look = {
      step,
      nowMs: model.now,
      expected,
      answer,
      state: ofModel(model),
      news,
      hash: client.hgetall(this.#key),
      expiryMs: client.call("PEXPIRETIME", this.#key) as Promise<number>,
      restMs: Math.max(0, model.youngUntil - model.now),
      inspected: run(generated.inspect, this.#keys, []),
      peeked: run(generated.peek, [this.#key], []),
    };
    // Behind all messages of this step.
    void client.publish(HEARD, `step ${at}`);
    return look;
  }

  #mark(): void {
    if (this.#marker === "none") return;
    void run(generated.endQuarantine, [MARKER], ["0"]);
    if (this.#marker === "old") return;
    // As if the server had begun just now, and had lost its memory.
    void client.hset(MARKER, "since", String(nowMs), "span", String(QUARANTINE));
    this.#model.youngUntil = nowMs + QUARANTINE;
  }

  async play(steps: readonly Step[]): Promise<void> {
    messages = [];
    this.#setTime(nowMs + 100_000, 0);
    this.#mark();
    const looks = steps.map((step, at) => this.#look(step, at));
    const answers = await Promise.allSettled(looks.map(({ answer }) => answer));
    // Its answer comes behind all messages.
    await inbox.ping();
    let from = 0;
    for (const [at, look] of looks.entries()) {
      const hash = await look.hash;
      const said = `after ${JSON.stringify(look.step)}: ${JSON.stringify(hash)}`;
      const answer = answers[at]!;
      if (answer.status === "rejected") throw answer.reason;
      expect(read(answer.value, look.expected), said).toEqual(look.expected);
      const { over, ...seen } = readHash(hash, await look.expiryMs, look.nowMs, this.#limit);
      const { over: mayBeOver, ...state } = look.state;
      expect(seen, said).toEqual(state);
      expect(mayBeOver, said).toEqual(expect.arrayContaining(over));
      const now = String(look.nowMs);
      expect(await look.inspected, said).toEqual([now, String(look.restMs), ...Object.entries(hash).flat()]);
      const short = Object.entries(hash).flatMap(([field, value]) => [field, field === "r" ? "" : value]);
      expect(await look.peeked, said).toEqual([now, ...short]);
      const till = messages.indexOf(`step ${at}`);
      expect(readNews(messages.slice(from, till), this.#by), said).toEqual(look.news);
      from = till + 1;
    }
  }
}

type Marker = "none" | "old" | "young";
const QUARANTINE = 25_000;
const OPS = '{"by":"ops","reason":"test"}';

/** An answer as the model says it: the instant at which a claim should ask again is known to no more than the first end. */
function read(reply: unknown, expected: unknown): unknown {
  if (Array.isArray(reply) && Array.isArray(expected)) return reply.map((one, at) => read(one, expected[at]));
  if (expected === "who") return /^[0-9a-f]{20}$/.test(String(reply)) ? "who" : reply;
  if (typeof reply === "string" && reply.startsWith("=")) {
    const [, at, again, from] = /^=(\d{16}) (\d+)(@[0-9a-f]{12})?$/.exec(reply)!;
    return { last: at, isHead: Number(again) > 0, by: from !== undefined };
  }
  if (typeof reply === "string") return heard(reply);
  if (!Array.isArray(reply) || typeof expected !== "object" || expected === null) return reply;
  const wanted = expected as { readonly ahead: number; readonly record: unknown; readonly learned: unknown };
  const [place, ahead, now, record, learned] = reply as [number, number, string, string, string | undefined];
  const again = /^=\d+ 0*(\d+)/.exec(learned ?? "")?.[1];
  if (place === 1) expect(Number(again)).toBe(Math.max(1, ahead));
  return {
    place,
    ahead: ahead > 0 && ahead < wanted.ahead ? wanted.ahead : ahead,
    now,
    record: isOneOf(record, wanted.record),
    learned: record === "done" ? learned : learned && read(learned, wanted.learned),
  };
}

/** Of several holders any may be shown. */
function isOneOf(record: string, expected: unknown): unknown {
  const { oneOf } = expected as { readonly oneOf?: readonly string[] };
  return oneOf?.includes(record.replace(/^(\d+ \d+) 0*/, "$1 ")) ? expected : record;
}

/** Of a run the zeros before it say nothing. */
function heard(run: string): string {
  return run.replace(/^(\d+)\+0*(\d)/, "$1+$2").replace(/([:?!*=]\d+)\+0*(\d)/, "$1+$2");
}

/** Exactly those learn of it whom it concerns, and those with the grant that they have. */
function readNews(texts: readonly string[], by: boolean): News {
  const news: News = { granted: [], done: [], wanted: [], freed: texts.filter((text) => text === "freed").length };
  for (const text of texts) {
    if (text === "freed") continue;
    const [, word, list] = /^(\w+) (.*)$/s.exec(text)!;
    const all = list!.split(",");
    for (const one of all) {
      const [, shown, mark, more = ""] = /^(.{8})([:?!*=])(?:(.*))?\.[0-9a-f]{20}$/.exec(one) ?? [];
      if (shown === undefined || shown.startsWith("~")) continue;
      if (word === "granted") {
        expect(/@[0-9a-f]{12}$/.test(more)).toBe(by);
        const isWanted = all.includes("*") || all.includes(`*${shown}`);
        news.granted.push(heard(`${shown}${mark}${more.replace(/@.*$/, "")}`) + (isWanted ? "*" : ""));
      }
      if (word === "done" || word === "wanted") news[word].push(shown);
    }
  }
  const { granted, done, wanted, freed } = news;
  return { granted: granted.toSorted(), done: done.toSorted(), wanted: wanted.toSorted(), freed };
}

const CASES = [
  ["claims", WHATS, 1, "none", 120],
  ["claims", WHATS, 3, "none", 90],
  ["only claim", CALM, 1, "none", 60],
  ["claims, the long way", WHATS, 1, "old", 40],
  ["claims, the long way", WHATS, 3, "old", 40],
  ["claims, in quarantine", WHATS, 1, "young", 40],
  ["claims, in quarantine", WHATS, 3, "young", 30],
  ["votes", VOTES, 1, "old", 50],
  ["votes", VOTES, 3, "old", 40],
] as const;

test.each(CASES)(
  "a lock keeps its %s as the rules say, to the millisecond and to the fence (%s; limit %i)",
  async (_, whats, limit, marker, runs) => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(terms(limit), { minLength: 6, maxLength: 6 }),
        fc.array(stepOf(whats, whats === CALM ? 0 : 5), { minLength: 10, maxLength: 40 }),
        (claims, steps) => new Play(limit, claims, marker).play(steps),
      ),
      { numRuns: runs },
    );
  },
  240_000,
);
