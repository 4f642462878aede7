/**
 * A simulated world for a quorum: virtual time, a network that delays, loses and cuts, members that restart and whose
 * clocks jump, clients that pause. Everything is drawn from one seed, so a seed replays exactly.
 */
import type { Member } from "../../../src/contract/backend.ts";
import type { Clock, Timer } from "../../../src/contract/clock.ts";
import { seeded, type SeededChance } from "../../../src/testing/index.ts";
import { ModelMember } from "./model-member.ts";

export interface Weather {
  /** Share of messages that take up to `slowMs` instead of a few ms. */
  readonly slow?: number;
  readonly slowMs?: number;
  /** Share of messages lost, each way. The caller learns of it late, as from a broken connection. */
  readonly lost?: number;
}

const WALL_MS = Date.UTC(2026, 0, 1);
const BROKEN_MS = 150;
const nextTurn = globalThis.setImmediate;

interface Event {
  atMs: number;
  order: number;
  readonly run: () => void;
  /** Whose event it is: a paused client's wait until it goes on. */
  readonly client: number | undefined;
  cancelled: boolean;
}

export class World {
  readonly dice: SeededChance;
  readonly members: SimulatedServer[];
  nowMs = 0;
  weather: Weather;
  /** Every message sent so far. */
  messages = 0;
  readonly #heap: Event[] = [];
  #orders = 0;
  readonly #pausedUntilMs: number[] = [];
  /** `${client} ${member}` → until when nothing passes between them. */
  readonly #cuts = new Map<string, number>();

  constructor(seed: number, members: number, weather: Weather) {
    this.dice = seeded(seed);
    this.weather = weather;
    this.members = Array.from({ length: members }, (_, at) => new SimulatedServer(this, at));
  }

  at(delayMs: number, run: () => void, client?: number): Event {
    const event: Event = {
      atMs: this.nowMs + Math.max(0, delayMs),
      order: this.#orders++,
      run,
      client,
      cancelled: false,
    };
    this.#push(event);
    return event;
  }

  sleep(client: number | undefined, ms: number): Promise<void> {
    return new Promise((resolve) => this.at(ms, resolve, client));
  }

  pause(client: number, ms: number): void {
    this.#pausedUntilMs[client] = Math.max(this.#pausedUntilMs[client] ?? 0, this.nowMs + ms);
  }

  cut(client: number, member: number, ms: number): void {
    this.#cuts.set(`${client} ${member}`, this.nowMs + ms);
  }

  /** A client's clock: monotonic time goes on while it is paused, but its timers fire late. */
  clock(client: number, skewMs: number): Clock {
    return {
      now: () => this.nowMs,
      wall: () => WALL_MS + this.nowMs + skewMs,
      setTimer: (fn, ms): Timer => this.at(ms, fn, client),
      clearTimer: (timer) => {
        if (timer !== undefined) (timer as Event).cancelled = true;
      },
    };
  }

  /** One request to a member and its reply. */
  call<T>(client: number, member: number, work: (server: SimulatedServer) => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const broken = (): void => void this.at(BROKEN_MS, () => reject(new Error("connection reset")), client);
      this.messages++;
      if (this.#isLost(client, member)) return broken();
      const reply = (settle: () => void): void => {
        if (this.#isLost(client, member)) broken();
        else this.at(this.#delayMs(), settle, client);
      };
      this.at(this.#delayMs(), () => {
        work(this.members[member]!).then(
          (value) => reply(() => resolve(value)),
          (cause: unknown) => reply(() => reject(cause as Error)),
        );
      });
    });
  }

  /** A message from a member without a request. */
  push(client: number, member: number, deliver: () => void): void {
    if (!this.#isLost(client, member)) this.at(this.#delayMs(), deliver, client);
  }

  /** Lets everything happen until `untilMs`. */
  async run(untilMs: number): Promise<void> {
    for (;;) {
      const event = this.#heap[0];
      if (event === undefined || event.atMs > untilMs) break;
      this.#pop();
      if (event.cancelled) continue;
      const pausedMs = event.client === undefined ? 0 : (this.#pausedUntilMs[event.client] ?? 0);
      if (pausedMs > event.atMs) {
        event.atMs = pausedMs;
        event.order = this.#orders++;
        this.#push(event);
        continue;
      }
      this.nowMs = Math.max(this.nowMs, event.atMs);
      event.run();
      // All promises that the event settles run at the same virtual time.
      await new Promise((resolve) => nextTurn(resolve));
    }
    this.nowMs = untilMs;
  }

  #isLost(client: number, member: number): boolean {
    const cutMs = this.#cuts.get(`${client} ${member}`) ?? 0;
    return cutMs > this.nowMs || this.dice.happens(this.weather.lost ?? 0);
  }

  #delayMs(): number {
    const slow = this.dice.happens(this.weather.slow ?? 0);
    return slow ? this.dice.between(1, this.weather.slowMs ?? 200) : this.dice.between(0.2, 2);
  }

  #push(event: Event): void {
    const heap = this.#heap;
    let at = heap.push(event) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!isBefore(event, heap[parent]!)) break;
      heap[at] = heap[parent]!;
      at = parent;
    }
    heap[at] = event;
  }

  #pop(): void {
    const heap = this.#heap;
    const last = heap.pop()!;
    if (heap.length === 0) return;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && isBefore(heap[child + 1]!, heap[child]!)) child++;
      if (!isBefore(heap[child]!, last)) break;
      heap[at] = heap[child]!;
      at = child;
    }
    heap[at] = last;
  }
}

function isBefore(a: Event, b: Event): boolean {
  return a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order);
}

/** A member's server, on a clock of its own. It starts without a quarantine. */
export class SimulatedServer {
  readonly at: number;
  offsetMs = 0;
  readonly #world: World;
  readonly #model: ModelMember;

  constructor(world: World, at: number) {
    this.#world = world;
    this.at = at;
    this.#model = new ModelMember({
      now: () => world.nowMs + this.offsetMs,
      wall: () => WALL_MS + world.nowMs + this.offsetMs,
      setTimer: () => undefined,
      clearTimer: () => undefined,
    });
    this.#model.endQuarantine();
  }

  /** The wall clock jumps; leases end by it, as in Redis. */
  jump(ms: number): void {
    this.offsetMs += ms;
  }

  restart(): void {
    this.#model.loseData();
  }

  /** The member as one client sees it. */
  seenBy(client: number): Member {
    const world = this.#world;
    let quarantineMs = 0;
    const on = <T>(work: (model: ModelMember) => Promise<T>): Promise<T> =>
      world.call(client, this.at, (server) => work(server.#model));
    return {
      name: "simulated",
      join: (terms) =>
        on(async (model) => {
          ({ quarantineMs } = terms);
          return { id: `${this.at}`, quarantineMs: model.join(quarantineMs) || undefined };
        }),
      vote: (claim, ballot) => on((model) => model.vote(claim, ballot, quarantineMs)),
      withdraw: (claim) => on(async ({ member }) => member.withdraw!(claim)),
      attempt: (claim) => on(({ member }) => member.attempt(claim)),
      renew: (claims, fences) => on(({ member }) => member.renew(claims, fences)),
      release: (claim) => on(({ member }) => member.release(claim)),
      query: (prefix) => on(({ member }) => member.query(prefix)),
      inspect: (name) => on(({ member }) => member.inspect(name)),
      forceRelease: (name, fence, by, reason) => on(({ member }) => member.forceRelease(name, fence, by, reason)),
      freed: (name, wake) => this.#model.store.freed.listen(name, () => world.push(client, this.at, wake)),
      close: () => Promise.resolve(),
    };
  }
}
