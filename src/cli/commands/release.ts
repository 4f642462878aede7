/** `holdfast release NAME --fence N`: gives back one's own lease, or, with a reason, ends somebody else's. */
import { hostname } from "node:os";

import type { Claim, Released } from "../../contract/backend.ts";
import { printable, REASON_MAX } from "../../contract/foreign.ts";
import { type Command } from "../command.ts";
import { UsageError } from "../usage-error.ts";
import {
  beginRelease,
  isClaimId,
  loadClaim,
  mayHaveEnded,
  othersRelease,
  storeClaim,
  type StoredClaim,
  takeBackRelease,
} from "../saved-claims.ts";
import { EXIT } from "../exit-codes.ts";
import { fenceOf } from "../fence-flag.ts";
import type { Flags } from "../flags.ts";
import type { Io } from "../io.ts";
import { ownHolder } from "../lock-flags.ts";
import { nameOf, type OpenStore, operator, urlOf, withLocks } from "../open-store.ts";
import { insist, isUnsure } from "../retry.ts";

export const releaseCommand: Command = {
  spec: {
    name: "release",
    summary: "Give back a lease from `acquire`, or end somebody's by force",
    usage: ["release NAME --fence N", "release NAME --claim ID", "release NAME --fence N --reason TEXT"],
    about: [
      "Without --reason: gives back a lease that `holdfast acquire` took, on this machine or, with --claim, anywhere. Exits with 0 if it was held until then or had been given back before, and with 76 if it had ended by itself: then others may have worked meanwhile.",
      "With --reason: ends the lease with that fence, whoever holds it, and no other. Its holder is told at once; who did it and why is kept for `holdfast show`. Exits with 1 if there is no such lease (any more).",
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
      "this lease was not acquired here: to give back your own give its --claim, to end somebody else's give a --reason",
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
  if (reason.trim() === "") throw new UsageError("--reason must say something: it is kept for whoever asks", "release");
  const by = operator(hostname());
  const end = ({ locks }: OpenStore): Promise<boolean> => locks.forceRelease(name, { fence, reason });
  const done = await withLocks(io, flags, end, { holder: by });
  if (flags.has("json")) io.json({ name, fence, released: done, by, reason });
  else if (!done) io.note(`holdfast: ${printable(name)} is not held with fence ${fence}; nothing was done`);
  else if (!flags.has("quiet")) io.note(`holdfast: ended the lease ${fence} on ${printable(name)}`);
  return done ? EXIT.ok : EXIT.no;
}

type Own = Omit<StoredClaim, "fence"> & { readonly fence: bigint | undefined };

function findClaim(io: Io, flags: Flags, name: string, fence: bigint | undefined): Own | undefined {
  const id = flags.text("claim");
  if (id === undefined) return fence === undefined ? undefined : loadClaim(io, urlOf(io, flags), name, fence);
  return { claim: claimById(name, id, "release"), fence, state: "held" };
}

/** Enough of a claim to name it: all operations go by its id. */
export function claimById(name: string, id: string, command: string): Claim {
  if (!isClaimId(id)) throw new UsageError(`--claim ${JSON.stringify(id)} is not a claim's id`, command);
  return {
    id,
    name,
    mode: "exclusive",
    limit: 1,
    ttlMs: 1000,
    lockDelayMs: 0,
    minHoldMs: 0,
    holder: ownHolder(),
    meta: {},
    queues: false,
    resumes: true,
  };
}

/** True: another release has had its "yes" meanwhile. */
function wasReleased(io: Io, url: string, name: string, fence: bigint | undefined): boolean {
  return fence !== undefined && loadClaim(io, url, name, fence)?.state === "released";
}

async function giveBack(io: Io, flags: Flags, name: string, own: Own): Promise<number> {
  const url = urlOf(io, flags);
  const keep = (state: StoredClaim["state"]): void => {
    if (own.fence !== undefined && flags.text("claim") === undefined)
      storeClaim(io, url, { ...own, fence: own.fence, state });
  };
  let result: "released" | "already released" | "lost";
  if (own.state === "released") {
    result = "already released";
  } else if (own.state === "lost") {
    result = "lost";
  } else {
    const { fence } = own;
    const noted = fence !== undefined && flags.text("claim") === undefined;
    const release = async ({ backend, immediate }: OpenStore): Promise<Released> => {
      // Not before the store is open: a release that was never sent must not explain why the lease is gone.
      if (noted) beginRelease(io, url, name, fence);
      let sent = 0;
      try {
        keep("releasing");
        return await insist({ backend: backend.name, unknown: `whether ${printable(name)} was given back` }, () => {
          sent++;
          return backend.release(own.claim);
        });
      } catch (error) {
        // Never sent, or a certain no to all that was: nothing of it is under way.
        if (immediate || sent === 0 || (sent === 1 && !isUnsure(error))) {
          if (noted) takeBackRelease(io, url, name, fence);
          if (sent > 0) keep(own.state);
        }
        throw error;
      }
    };
    const mayHaveExpired = mayHaveEnded(own, Date.now());
    const known = await withLocks(io, flags, release, { outlives: true });
    // After a release whose answer was lost, or beside another one, "not there" may well be that release's doing: but only
    // while the lease had time left. Later nobody can tell, and whoever says "lost" errs on the safe side.
    const sentBefore = own.state === "releasing" || (noted && othersRelease(io, url, name, fence));
    if (known === "held") result = "released";
    else if (!sentBefore) result = "lost";
    else result = mayHaveExpired && !wasReleased(io, url, name, fence) ? "lost" : "already released";
    keep(result === "lost" ? "lost" : "released");
  }
  if (flags.has("json")) io.json({ name, fence: own.fence, released: result !== "lost", result });
  else if (result === "lost")
    io.note(`holdfast: the lease on ${printable(name)} had ended before: others may have held it since`);
  return result === "lost" ? EXIT.lost : EXIT.ok;
}
