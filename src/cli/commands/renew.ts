/** `holdfast renew NAME --fence N`: more time for a lease from `acquire`. */
import type { Claim } from "../../contract/backend.ts";
import { systemClock } from "../../contract/clock.ts";
import { driftMs } from "../../contract/answer.ts";
import { formatMs, MAX_TTL_MS } from "../../contract/duration.ts";
import { LockBackendError, LockLostError } from "../../contract/errors.ts";
import { printable } from "../../contract/foreign.ts";
import { ask } from "../ask-store.ts";
import { loadClaim, storeClaim, type StoredClaim, tryNoting } from "../saved-claims.ts";
import { type Command } from "../command.ts";
import { UsageError } from "../usage-error.ts";
import { EXIT } from "../exit-codes.ts";
import { fenceOf } from "../fence-flag.ts";
import type { Flags } from "../flags.ts";
import { askUntilAnswered } from "../retry.ts";
import type { Io } from "../io.ts";
import { nameOf, type OpenStore, urlOf, withLocks } from "../open-store.ts";
import { claimById } from "./release.ts";

export const renewCommand: Command = {
  spec: {
    name: "renew",
    summary: "Give a lease from `acquire` more time",
    usage: ["renew NAME --fence N [--ttl 5m]", "renew NAME --claim ID --ttl 5m"],
    about: [
      "Exits with 76 when the lease has ended: stop the work, and start again with a new one. It is never taken again silently.",
    ],
    flags: {
      fence: { value: "N", help: "which lease: the number that `acquire` printed" },
      claim: { value: "ID", help: "which lease: its claim, from `acquire --json --show-claim`; needs --ttl" },
      ttl: { value: "DURATION", help: "for how long from now, and from now on (default: as acquired)" },
    },
    examples: [
      ['holdfast renew deploy --fence "$fence" || exit', "between two steps; stops the script when lost"],
      ['holdfast renew deploy --fence "$fence" --ttl 1h', "before a long step"],
    ],
    exits: ["ok", "usage", "backend", ["lost", "the lease has ended or was given back: stop what it protected"]],
    completes: "lock",
  },
  async run(io, flags) {
    const name = nameOf(flags, "renew");
    const fence = fenceOf(flags, "renew");
    const { claim, keeper } = findClaim(io, flags, name, fence);
    const renew = async (store: OpenStore): Promise<number> => {
      const untilMs = await renewOnce(store, claim, fence);
      if (flags.text("ttl") !== undefined) await checkGiven(store, claim, untilMs);
      return untilMs - systemClock.now();
    };
    const remainingMs = await withLocks(io, flags, renew, { outlives: true });
    if (fence !== undefined && flags.text("claim") === undefined) {
      const endsAtMs = Date.now() + remainingMs;
      const meaning = `the lease on ${printable(name)} is renewed, but the note of it is the old one; give --ttl again to keep it, and --claim where you have it`;
      tryNoting(io, meaning, () => storeClaim(io, urlOf(io, flags), { claim, fence, state: "held", endsAtMs, keeper }));
    }
    const deadline = new Date(Date.now() + remainingMs).toISOString();
    if (flags.has("json")) io.json({ name, fence, ttlMs: claim.ttlMs, remainingMs: Math.floor(remainingMs), deadline });
    else if (flags.has("verbose")) io.note(`holdfast: ${printable(name)} is held until ${deadline}`);
    return EXIT.ok;
  },
};

const WHY_OVER: Readonly<Record<StoredClaim["state"], string | undefined>> = {
  held: undefined,
  // What was sent may still be on its way, and end the lease after any renewal.
  releasing: "a release was sent whose answer never came, and may end it at any moment. Release it again to learn more",
  released: "it was released before",
  lost: "it was found to have ended before",
};

function findClaim(
  io: Io,
  flags: Flags,
  name: string,
  fence: bigint | undefined,
): Pick<StoredClaim, "claim" | "keeper"> {
  const ttlMs = flags.durationMs("ttl", { minMs: 100, maxMs: MAX_TTL_MS });
  const id = flags.text("claim");
  if (id !== undefined) {
    if (ttlMs === undefined) throw new UsageError("with --claim, say for how long: --ttl", "renew");
    return { claim: { ...claimById(name, id, "renew"), ttlMs } };
  }
  if (fence === undefined) throw new UsageError("which lease? Give its --fence, or its --claim", "renew");
  const stored = loadClaim(io, urlOf(io, flags), name, fence);
  if (stored === undefined) {
    throw new UsageError(
      "this lease was not acquired here: give its --claim, from `acquire --json --show-claim`",
      "renew",
    );
  }
  const over = WHY_OVER[stored.state];
  if (over !== undefined) throw new LockLostError(name, fence, over);
  return { claim: { ...stored.claim, ttlMs: ttlMs ?? stored.claim.ttlMs }, keeper: stored.keeper };
}

/** A store that keeps to the ttl of the beginning must not be believed to have given another. */
async function checkGiven(store: OpenStore, claim: Claim, untilMs: number): Promise<void> {
  const { backend } = store;
  const { held } = await ask(store, claim.name).catch((cause: unknown) => {
    const message = `The lease is renewed, but the store did not say for how long.`;
    throw new LockBackendError(backend.name, claim.name, message, { cause });
  });
  const leftMs = Math.max(...held.filter(({ name }) => name === claim.name).map(({ remainingMs }) => remainingMs));
  // By now: on a busy machine the question may have taken longer than the difference that matters.
  if (leftMs >= untilMs - systemClock.now() - 2000) return;
  const message = `The lease is renewed, but for ${formatMs(leftMs)} only: this store cannot change the ttl of a lease. Acquire it with the longest ttl that you will need.`;
  throw new LockBackendError(backend.name, claim.name, message, { fatal: true });
}

/** Until when it may be trusted, counted from before the question left. */
async function renewOnce({ backend }: OpenStore, claim: Claim, fence: bigint | undefined): Promise<number> {
  const question = { backend: backend.name, unknown: `whether ${printable(claim.name)} is still held` };
  return askUntilAnswered(question, async () => {
    const sentAtMs = systemClock.now();
    const [renewal] = await backend.renew([claim], fence === undefined ? undefined : [fence]);
    if (renewal?.held === true) {
      return (renewal.fromMs ?? sentAtMs) + claim.ttlMs - driftMs(claim.ttlMs);
    }
    if (renewal?.held === false) throw new LockLostError(claim.name, fence ?? 0n, renewal.reason);
    const { cause } = renewal ?? {};
    // It was not even asked: the same question gets the same answer.
    if (cause instanceof LockBackendError && cause.fatal) throw cause;
    const message = `The store did not say whether ${claim.name} is still held. Ask again before its ttl has passed.`;
    throw new LockBackendError(backend.name, claim.name, message, { cause });
  });
}
