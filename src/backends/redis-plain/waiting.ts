/**
 * How a claim waits: other libraries send no message when they release a lock, so it is asked for again, later each time. Where the server sends
 * keyspace events, the deletion of the key wakes the claims that wait for it, also if another library has deleted it.
 */
import type { Clock } from "../../contract/clock.ts";
import { jitter } from "../../contract/random.ts";
import type { Connection } from "../redis/connection.ts";
import { Feed } from "../redis/layouts/feed.ts";

/** The pauses between two questions without events: from the least, half as long again each time, to the most. */
const POLL_MIN_MS = 20;
const POLL_MAX_MS = 250;
const POLL_GROWTH = 1.5;
/** With events: they may be lost with their connection, so a claim never relies on them alone. */
const SAFETY_MS = 2000;
/** Key and events that end it: deletions, expiry, and what else removes a key. */
const ENDS: ReadonlySet<string> = new Set(["del", "expired", "evicted", "rename_from", "move_from"]);
/** The server's settings are looked at again after this long. */
const CHECK_MS = 30_000;

/** The events of one server: those of a cluster's nodes do not reach the others. */
interface Events {
  readonly feed: Feed;
  /** It sent an event that was waited for, or its settings say that it does. */
  sure: boolean;
}

export class Waiting {
  readonly #connection: Connection;
  readonly #clock: Clock;
  readonly #enabled: boolean;
  readonly #feeds: Map<string, Events> = new Map();
  readonly #checks: Map<string, { readonly found: Promise<Found>; readonly atMs: number }> = new Map();
  #closed = false;

  constructor(connection: Connection, clock: Clock, enabled: boolean) {
    this.#connection = connection;
    this.#clock = clock;
    this.#enabled = enabled;
  }

  /** When to ask again. `leftMs`: until the key expires, if it does; `tries`: how often the claim was refused before. */
  retryMs(key: string, leftMs: number, tries: number): number {
    const pollMs = Math.min(POLL_MAX_MS, POLL_MIN_MS * POLL_GROWTH ** Math.min(tries, 20));
    const events = this.#feeds.get(this.#connection.nodeOf(key));
    const pauseMs = events?.sure === true ? jitter(SAFETY_MS, 0.75, 1.25) : jitter(pollMs, 0.5, 1);
    // Of a key that never expires, time says nothing.
    return leftMs < 0 ? pauseMs : Math.min(pauseMs, leftMs + jitter(POLL_MIN_MS, 0.05, 0.5));
  }

  /** Calls `wake` when the key may have been removed since `sinceMs`. Returns what stops it. `key` as Redis knows it. */
  onEnd(bare: string, key: string, sinceMs: number, wake: () => void): () => void {
    if (!this.#enabled || this.#closed) return () => {};
    let stop = (): void => {};
    let stopped = false;
    void this.#channel(bare, key).then((found) => {
      if (found === undefined || stopped || this.#closed) return;
      stop = found.feed.listen(found.channel, sinceMs, wake);
    });
    return () => {
      stopped = true;
      stop();
    };
  }

  async areSent(): Promise<boolean | undefined> {
    return (await look(this.#connection, "")).sends;
  }

  close(): void {
    this.#closed = true;
    for (const { feed } of this.#feeds.values()) feed.close();
    this.#feeds.clear();
  }

  /** The feed and the channel of a key. `undefined`: its server sends no events, or does not let us ask. */
  async #channel(bare: string, key: string): Promise<{ feed: Feed; channel: string } | undefined> {
    const address = this.#connection.nodeOf(bare);
    const nowMs = this.#clock.now();
    let check = this.#checks.get(address);
    if (check === undefined || nowMs - check.atMs > CHECK_MS) {
      check = { found: look(this.#connection, address), atMs: nowMs };
      this.#checks.set(address, check);
    }
    const { database, sends } = await check.found;
    const events = this.#feeds.get(address);
    if (database === undefined || sends === false || this.#closed) {
      if (events !== undefined) events.sure = false;
      return undefined;
    }
    const known = events ?? this.#open(address);
    if (sends === true) known.sure = true;
    return { feed: known.feed, channel: `__keyspace@${database}__:${key}` };
  }

  #open(address: string): Events {
    const ends = (event: string): boolean => ENDS.has(event);
    const heard = (): void => void (events.sure = true);
    const feed = new Feed(this.#connection, this.#clock, address, { ends, heard });
    const events: Events = { feed, sure: false };
    this.#feeds.set(address, events);
    return events;
  }
}

interface Found {
  /** The number of the client's database, which is part of a channel's name. */
  readonly database: string | undefined;
  /** `undefined`: the server does not let us ask; then we listen, and see. */
  readonly sends: boolean | undefined;
}

async function look(connection: Connection, address: string): Promise<Found> {
  try {
    const primaries = await connection.primaries();
    const primary = primaries.find((one) => one.address === address) ?? primaries[0];
    if (primary === undefined) return { database: undefined, sends: undefined };
    const [info, setting] = await Promise.all([
      primary.command(["CLIENT", "INFO"]).then(String, () => ""),
      primary.command(["CONFIG", "GET", "notify-keyspace-events"]).then(flagsOf, () => undefined),
    ]);
    return { database: /\bdb=(\d{1,6})\b/u.exec(info)?.[1], sends: setting === undefined ? undefined : areOn(setting) };
  } catch {
    return { database: undefined, sends: undefined };
  }
}

/** A flat list (RESP2), or an object or Map (RESP3). */
function flagsOf(reply: unknown): string | undefined {
  if (reply instanceof Map) return [...reply.values()].map(String)[0];
  if (Array.isArray(reply)) return reply.length > 1 ? String(reply[1]) : undefined;
  return typeof reply === "object" && reply !== null ? Object.values(reply).map(String)[0] : undefined;
}

/** Events by key (K), for deletions (g) and expiry (x); A stands for all kinds. */
function areOn(flags: string): boolean {
  return flags.includes("K") && (flags.includes("A") || (flags.includes("g") && flags.includes("x")));
}
