/** What a majority of members says about locks, and what it does when a lease is broken by force. */
import type { Forced, Holding, Snapshot } from "../../contract/backend.ts";
import type { Timer } from "../../contract/clock.ts";
import { LockBackendError, type MemberVote } from "../../contract/errors.ts";
import { ballotOf, firstFence } from "./ballot.ts";
import type { Settings } from "./options.ts";
import { majorityOf } from "./round.ts";
import type { Seat } from "./member-link.ts";
import { inWords } from "./votes.ts";

interface Answer<T> {
  readonly seat: Seat;
  readonly value: T;
}

/** Once a majority has answered, the others get this much time, and twice what the majority took. */
const GRACE_MS = 20;

/** The answers of a majority, and of whoever is not much slower. Rejects where fewer than a majority answered in time. */
export async function askAll<T>(
  seats: readonly Seat[],
  { clock, memberWaitMs }: Settings,
  lock: string,
  question: (seat: Seat) => Promise<T>,
): Promise<readonly Answer<T>[]> {
  const majority = majorityOf(seats.length);
  const sentAtMs = clock.now();
  const answers: Answer<T>[] = [];
  const silent = new Map<Seat, MemberVote>();
  let timer: Timer;
  await new Promise<void>((resolve) => {
    timer = clock.setTimer(resolve, memberWaitMs, true);
    let open = seats.length;
    const settled = (): void => {
      open--;
      if (open === 0) return resolve();
      if (answers.length !== majority) return;
      clock.clearTimer(timer);
      timer = clock.setTimer(resolve, Math.min(memberWaitMs, GRACE_MS + 2 * (clock.now() - sentAtMs)), true);
    };
    for (const seat of seats) {
      silent.set(seat, { member: seat.label, vote: "slow", detail: `did not answer in ${memberWaitMs} ms` });
      question(seat).then(
        (value) => {
          answers.push({ seat, value });
          silent.delete(seat);
          settled();
        },
        (cause: unknown) => {
          const detail = cause instanceof Error ? cause.message : String(cause);
          silent.set(seat, { member: seat.label, vote: "unreachable", detail });
          settled();
        },
      );
    }
  });
  clock.clearTimer(timer);
  // Copied: whoever answers after this must not change what was counted.
  if (answers.length >= majority) return [...answers];
  const votes = [...silent.values()];
  const message = `Needs the answers of ${majority} of ${seats.length} members, and got ${answers.length}: ${inWords(votes)}.`;
  throw new LockBackendError("quorum", lock, message, { votes });
}

/** Leases that a majority holds, or would if the members that did not answer held them too. */
export async function survey(seats: readonly Seat[], settings: Settings, prefix: string): Promise<Snapshot> {
  const answers = await askAll(seats, settings, prefix, (seat) => seat.ask((member) => member.query(prefix)));
  const copies = new Map<string, Holding[]>();
  const forced = new Map<string, Forced>();
  for (const { value } of answers) {
    for (const holding of value.held) add(copies, `${holding.fence} ${holding.holder} ${holding.name}`, holding);
    for (const record of value.forced) {
      const fence = firstFence(record.fence);
      const id = `${fence} ${record.name}`;
      if (!forced.has(id)) forced.set(id, { ...record, fence });
    }
  }
  const silent = seats.length - answers.length;
  const majority = majorityOf(seats.length);
  const held = [...copies.values()].filter(({ length }) => length + silent >= majority);
  return {
    held: held.map((holdings) => merge(holdings, majority - silent)),
    // Members keep no queue: a quorum's waiters wait where they are.
    pending: [],
    forced: [...forced.values()],
  };
}

function add(copies: Map<string, Holding[]>, id: string, holding: Holding): void {
  const known = copies.get(id);
  if (known === undefined) copies.set(id, [holding]);
  else known.push(holding);
}

/** The lock lets go by itself when the first of the `needed` longest holds ends. */
function merge(holdings: readonly Holding[], needed: number): Holding {
  const longest = holdings.toSorted((a, b) => b.remainingMs - a.remainingMs);
  const decisive = longest[Math.max(0, Math.min(needed, longest.length) - 1)]!;
  const heldMs = Math.max(...holdings.map((holding) => holding.heldMs));
  return { ...decisive, fence: firstFence(decisive.fence), heldMs };
}

/** Ends the lease at every member that answers. True when it was a lease, and a majority is surely free of it now. */
export async function breakLease(
  seats: readonly Seat[],
  settings: Settings,
  name: string,
  fence: bigint,
  by: string,
  reason: string,
): Promise<boolean> {
  const ballot = ballotOf(fence);
  const answers = await askAll(seats, settings, name, (seat) =>
    seat.ask((member) => member.forceRelease(name, ballot, by, reason)),
  );
  const silent = seats.length - answers.length;
  const hits = answers.filter(({ value }) => value).length;
  // What fewer than a majority held was a round that somebody had lost: it is gone now too, but it was no lease.
  return hits > 0 && hits + silent >= majorityOf(seats.length);
}
