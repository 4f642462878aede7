/** Messages that come too often: what is passed on at once, what late, and that the last is never lost. On a clock of its own, without a server. */
import { expect, onTestFinished, test } from "vitest";
import { createHash } from "node:crypto";
import type { Claim } from "../../../src/contract/backend.ts";
import type { Connection, OwnConnection, OwnConnectionEvents } from "../../../src/backends/redis/connection.ts";
import { Inbox, type Recipients } from "../../../src/backends/redis/inbox.ts";
import { LocalClaims } from "../../../src/backends/redis/local-claims.ts";
import { LIMIT } from "../../../src/backends/redis/wire.ts";
import { FakeClock } from "../../../src/testing/fake-clock.ts";
import { claimOf } from "./lab.ts";

const INBOX = "holdfast:inbox:me";

interface Heard {
  readonly clock: FakeClock;
  readonly claims: LocalClaims;
  readonly inbox: Inbox;
  /** Of which claim; `undefined`: any may have been missed. */
  readonly doubts: (string | undefined)[];
  readonly wanted: string[];
  readonly subscribed: string[];
  readonly say: (channel: string, text: string) => void;
}

/** An inbox whose connection is open, and says what the test says. */
async function listening(): Promise<Heard> {
  const clock = new FakeClock();
  const claims = new LocalClaims(clock, () => []);
  const doubts: (string | undefined)[] = [];
  const wanted: string[] = [];
  const subscribed: string[] = [];
  let events: OwnConnectionEvents | undefined;
  const own: Partial<OwnConnection> = {
    isOpen: true,
    subscribe: async (channels) => void subscribed.push(...channels),
    unsubscribe: async (channel) => void subscribed.splice(subscribed.indexOf(channel), 1),
    close: () => {},
  };
  const connection: Partial<Connection> = {
    topology: "standalone",
    openOwn: async (_, given) => {
      events = given;
      return own as OwnConnection;
    },
  };
  const to: Partial<Recipients> = {
    claims,
    doubt: (claim) => doubts.push(claim?.id),
    wanted: (claim) => wanted.push(claim.id),
  };
  const inbox = new Inbox(connection as Connection, INBOX, clock, to as Recipients);
  await inbox.open();
  onTestFinished(() => inbox.close());
  return { clock, claims, inbox, doubts, wanted, subscribed, say: (channel, text) => events!.message(channel, text) };
}

/** What a store says of one claim, with the seal that only it and this process can make. */
function sealed(word: string, mark: string, { id }: Claim): string {
  const seal = createHash("sha1")
    .update(id + mark)
    .digest("hex")
    .slice(0, LIMIT.seal);
  return `${word}${id.slice(0, LIMIT.shown)}${mark}.${seal}`;
}

test("“freed” wakes at once, fifty times in a row; then every 4 ms, and once at the end, and never without a reason", async () => {
  const { clock, inbox, say } = await listening();
  let wakes = 0;
  const stop = inbox.onFreed("lock", () => wakes++);
  await clock.settle();
  // The lock may have been freed before it was listened to.
  expect(wakes).toBe(1);
  for (let times = 0; times < 49; times++) say("lock", "freed");
  expect(wakes).toBe(50);
  for (let times = 0; times < 1000; times++) say("lock", "freed");
  expect(wakes).toBe(50);
  await clock.advance(3);
  expect(wakes).toBe(50);
  await clock.advance(1);
  expect(wakes).toBe(51);
  await clock.advance(1000);
  expect(wakes).toBe(51);
  // A second is more than a whole burst needs: it is there again, and no more than that.
  for (let times = 0; times < 60; times++) say("lock", "freed");
  expect(wakes).toBe(101);
  // One that stops listening is not woken by what is late.
  stop();
  await clock.advance(1000);
  expect([wakes, clock.timers]).toEqual([101, 0]);
});

test("“freed” of one lock says nothing of another, and nothing is heard after the end", async () => {
  const { clock, inbox, say, subscribed } = await listening();
  const wakes = { a: 0, b: 0 };
  const stop = inbox.onFreed("a", () => wakes.a++);
  inbox.onFreed("b", () => wakes.b++);
  await clock.settle();
  expect(subscribed).toEqual([INBOX, "a", "b"]);
  say("a", "freed");
  expect(wakes).toEqual({ a: 2, b: 1 });
  stop();
  stop();
  await clock.settle();
  expect(subscribed).toEqual([INBOX, "b"]);
  for (let times = 0; times < 100; times++) say("b", "freed");
  inbox.close();
  say("b", "freed");
  await clock.advance(1000);
  expect([wakes, clock.timers, inbox.ready]).toEqual([{ a: 2, b: 50 }, 0, false]);
});

test.each([
  { news: "a forced end", word: "forced ", mark: "!", paceMs: 1000 },
  { news: "that others wait", word: "wanted ", mark: "*", paceMs: 50 },
])(
  "$news, repeated, is passed on once, once more when its pace allows it, and for each claim apart",
  async ({ word, mark, paceMs }) => {
    const { clock, claims, doubts, wanted, inbox, say } = await listening();
    const passed = word.startsWith("forced") ? doubts : wanted;
    passed.length = 0;
    const [one, other] = [claimOf(), claimOf()];
    for (const claim of [one, other]) claims.add(claim, 0);
    for (let times = 0; times < 100; times++) say(INBOX, sealed(word, mark, one));
    await clock.advance(0);
    expect(passed).toEqual([one.id]);
    say(INBOX, sealed(word, mark, other));
    await clock.advance(paceMs - 1);
    expect(passed).toEqual([one.id, other.id]);
    await clock.advance(1);
    await clock.advance(0);
    expect(passed).toEqual([one.id, other.id, one.id]);
    await clock.advance(10 * paceMs);
    expect(passed).toEqual([one.id, other.id, one.id]);
    for (let times = 0; times < 2; times++) say(INBOX, sealed(word, mark, one));
    await clock.advance(0);
    inbox.close();
    await clock.advance(10 * paceMs);
    expect(passed).toEqual([one.id, other.id, one.id, one.id]);
  },
);
