/** `holdfast release NAME --fence N`: gives back your own lease, or, with a reason, ends the lease of another holder. */
import { hostname } from "node:os";

import type { Claim, Released } from "../../contract/backend.ts";
import { systemClock } from "../../contract/clock.ts";
import { printable, REASON_MAX } from "../../contract/foreign.ts";
import { within } from "../../contract/time-limit.ts";
import { checkOptions, toClaim } from "../../core/options.ts";
import { ANSWER_MS, silence } from "../ask-store.ts";
import { type Command } from "../command.ts";
import { UsageError } from "../usage-error.ts";
import {
  beginRelease,
  findClaim as findClaimById,
  isClaimId,
  loadClaim,
  mayHaveEnded,
  othersRelease,
  storeClaim,
  type StoredClaim,
  takeBackRelease,
  tryNoting,
} from "../saved-claims.ts";
import { EXIT } from "../exit-codes.ts";
import { fenceOf } from "../fence-flag.ts";
import type { Flags } from "../flags.ts";
import type { Io } from "../io.ts";
import { ownHolder } from "../lock-flags.ts";
import { nameOf, type OpenStore, operator, urlOf, withLocks } from "../open-store.ts";
import { askUntilAnswered, isUnsure } from "../retry.ts";

export const releaseCommand: Command = {
  spec: {
    name: "release",
    summary: "Give back a lease from `acquire`, or end another holder's lease by force",
    usage: ["release NAME --fence N", "release NAME --claim ID", "release NAME --fence N --reason TEXT"],
    about: [
      "Without --reason: gives back a lease that `holdfast acquire` took, on this machine or, with --claim, anywhere. Exits with 0 if it was held until then or had been given back before, and with 76 if it had ended by itself: then others may have worked meanwhile.",
      "With --reason: ends exactly the lease with that fence, of any holder. The holder is notified at once; who did it and why is kept for `holdfast show`. Exits with 1 if there is no such lease (any more).",
    ],
    flags: {
      fence: { value: "N", help: "which lease: its number, from `acquire`, `show` or `ls`" },
      claim: { value: "ID", help: "which lease: its claim, from `acquire --json --show-claim`" },
      reason: { value: "TEXT", max: REASON_MAX, help: "end the lease by force, and say why" },
    },
    examples: [
      ['holdfast release deploy --fence "$fence"', "give back what `acquire` took"],
      ['holdfast release deploy --fence 1790000000000000 --reason "web-3 hangs"', "break it"],
    ],
    exits: [
      ["ok", "given back, now or before; with --reason: ended"],
      ["no", "with --reason: there is no such lease (any more)"],
      "usage",
      "backend",
      ["lost", "the lease had ended by itself: others may have held the lock since"],
    ],
    completes: "lock",
  },
  async run(io, flags) {
    const name = nameOf(flags, "release");
    const fence = fenceOf(flags, "release");
    const reason = flags.text("reason");
    if (reason !== undefined) return breakLease(io, flags, name, fence, reason);
    const stored = findClaim(io, flags, name, fence);
    if (stored !== undefined) return giveBack(io, flags, name, stored);
    if (fence === undefined) throw new UsageError("which lease? Give its --fence, or its --claim", "release");
    throw new UsageError(
      "this lease was not acquired here: to give back your own lease add its --claim; to end the lease of another holder add a --reason",
      "release",
    );
  },
};

async function breakLease(
  io: Io,
  flags: Flags,
  name: string,
  fence: bigint | undefined,
  reason: string,
): Promise<number> {
  if (fence === undefined) throw new UsageError("which lease? Give its --fence (see `holdfast show`)", "release");
  if (reason.trim() === "")
    throw new UsageError("--reason must not be empty: it is shown to everyone who inspects the lock", "release");
  const by = operator(hostname());
  const end = async ({ locks, backend }: OpenStore): Promise<boolean> => {
    const ended = await within(systemClock, locks.forceRelease(name, { fence, reason }), ANSWER_MS);
    if (ended === undefined) throw silence(backend.name, `whether the lease on ${printable(name)} was ended`);
    return ended;
  };
  const done = await withLocks(io, flags, end, { holder: by });
  if (flags.has("json")) io.json({ name, fence, released: done, by, reason });
  else if (!done) io.note(`holdfast: ${printable(name)} is not held with fence ${fence}; nothing was done`);
  else if (!flags.has("quiet")) io.note(`holdfast: ended the lease ${fence} on ${printable(name)}`);
  return done ? EXIT.ok : EXIT.no;
}

type Result = "released" | "already released" | "lost";
type Own = Omit<StoredClaim, "fence"> & {
  readonly fence: bigint | undefined;
  /** There is a note of it here. */
  readonly noted: boolean;
};

function findClaim(io: Io, flags: Flags, name: string, fence: bigint | undefined): Own | undefined {
  const id = flags.text("claim");
  const url = urlOf(io, flags);
  const claim = id === undefined ? undefined : claimById(name, id, "release");
  const stored =
    claim === undefined
      ? fence === undefined
        ? undefined
        : loadClaim(io, url, name, fence)
      : findClaimById(io, url, claim, fence);
  if (stored !== undefined) return { ...stored, noted: true };
  return claim === undefined ? undefined : { claim, fence, state: "held", noted: false };
}

/** Enough of a claim to name it: all operations go by its id. */
export function claimById(name: string, id: string, command: string): Claim {
  if (!isClaimId(id)) throw new UsageError(`--claim ${JSON.stringify(id)} is not a claim's id`, command);
  const checked = checkOptions({ ttl: 1000, renew: false }, {});
  return { ...toClaim(id, name, ownHolder(), checked, false), resumes: true };
}

/** True: another release has had its "yes" meanwhile. */
function wasReleased(io: Io, url: string, name: string, fence: bigint): boolean {
  return loadClaim(io, url, name, fence)?.state === "released";
}

async function giveBack(io: Io, flags: Flags, name: string, own: Own): Promise<number> {
  // The claim may have been granted again since, from anywhere: a user who gives --claim means the lease that it holds now.
  const over = flags.text("claim") === undefined ? OVER[own.state] : undefined;
  const result = over ?? (await releaseNow(io, flags, name, own));
  if (flags.has("json")) io.json({ name, fence: own.fence, released: result !== "lost", result });
  else if (result === "lost")
    io.note(`holdfast: the lease on ${printable(name)} had ended before: others may have held it since`);
  return result === "lost" ? EXIT.lost : EXIT.ok;
}

const OVER: Readonly<Record<StoredClaim["state"], Result | undefined>> = {
  held: undefined,
  releasing: undefined,
  released: "already released",
  lost: "lost",
};

async function releaseNow(io: Io, flags: Flags, name: string, own: Own): Promise<Result> {
  const url = urlOf(io, flags);
  const { claim, state, endsAtMs, keeper } = own;
  const fence = own.fence ?? 0n;
  const keep = (now: StoredClaim["state"]): void => storeClaim(io, url, { claim, fence, state: now, endsAtMs, keeper });
  let sent = 0;
  const release = async ({ backend, immediate }: OpenStore): Promise<Released> => {
    // Not before the store is open: a release that was never sent must not explain why the lease is gone.
    const unmarked = "other commands cannot see that it is being released; it is released all the same";
    if (own.noted) tryNoting(io, unmarked, () => beginRelease(io, url, name, fence));
    try {
      if (own.noted && OVER[state] === undefined) tryNoting(io, unmarked, () => keep("releasing"));
      return await askUntilAnswered(
        { backend: backend.name, unknown: `whether ${printable(name)} was given back` },
        () => {
          sent++;
          return backend.release(claim);
        },
      );
    } catch (error) {
      // Never sent, or a certain no to all that was: nothing of it is under way.
      if (own.noted && (immediate || sent === 0 || (sent === 1 && !isUnsure(error)))) {
        tryNoting(
          io,
          "it was not released, though the mark says so; release it again, with --claim where you have it",
          () => {
            takeBackRelease(io, url, name, fence);
            if (sent > 0) keep(state);
          },
        );
      }
      throw error;
    }
  };
  const atFirst = mayHaveEnded(own, Date.now());
  const known = await withLocks(io, flags, release, { outlives: true });
  const mayHaveExpired = atFirst || mayHaveEnded(own, Date.now());
  const result = ((): Result => {
    if (known === "held") return "released";
    if (OVER[state] !== undefined) return OVER[state];
    const beside = own.noted && othersRelease(io, url, name, fence);
    // After a release whose answer was lost, ours or one beside it, "not there" may well be that release's doing: but only
    // while the lease had time left. Later it cannot be known, and "lost" is the safe answer.
    if (beside && wasReleased(io, url, name, fence)) return "already released";
    if (mayHaveExpired) return "lost";
    if (state === "releasing" || beside) return "already released";
    return sent > 1 ? "released" : "lost";
  })();
  // Also where the lease was acquired elsewhere: a repeated release here then gets the same answer.
  if (own.noted || result === "released") {
    const became = result === "lost" ? "had ended before" : "was released";
    tryNoting(io, `the lease on ${printable(name)} ${became}, but to ask again here needs its --claim`, () =>
      keep(result === "lost" ? "lost" : "released"),
    );
  }
  return result;
}
