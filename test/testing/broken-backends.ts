/** Backends that break one promise each: the proof that the conformance suite can fail. */
import type { Claim, Granted } from "../../src/contract/backend.ts";
import { memory } from "../../src/backends/memory/index.ts";
import {
  type Change,
  delegate,
  holds,
  keepsWaiting,
  note,
  onClaim,
  onGrant,
  onInspect,
  onQuery,
  releaseByName,
  sharedElsewhere,
  untilAborted,
} from "./breaking.ts";

/** Every promise, and what breaks it. */
export const broken: Readonly<Record<string, Change>> = {
  "grants a free lock to one claim and refuses the next": onClaim((claim) => ({ name: claim.name + claim.id })),
  "gives a claim that asks again the same lease": (right) => ({
    attempt: async (claim) => {
      if (await holds(right, claim)) await right.release(claim);
      return right.attempt(claim);
    },
  }),
  "keeps a lease that was asked for again as long as the answer may be trusted": (right, { notes }) => ({
    attempt: async (claim) => {
      const known = notes.get(claim.id) as Granted | undefined;
      return known ?? note(notes, claim, await right.attempt(claim));
    },
  }),
  "releases: says that the claim was held, or that it does not know it, and the lock is free": (right) => ({
    release: async (claim) => (await right.release(claim), "held"),
  }),
  "lets no claim release another's lease": releaseByName,
  "does not let a stale release hurt the successor": releaseByName,
  "removes a waiting claim on release": keepsWaiting,
  "keeps nothing of a refused claim that does not queue": onClaim(() => ({ queues: true })),
  "keeps different locks apart": onClaim((claim) => ({ name: claim.name.replace(/\/.*/s, "") })),
  "leaves nothing in the store after everything has ended": (right) => ({
    release: async (claim) => (claim.mode === "shared" ? "held" : right.release(claim)),
  }),
  "serves a storm of claimants one at a time, every one of them, with rising fences": (_, { store }) =>
    delegate(memory({ clock: store.clock })),

  // A try that takes a readers' lock for itself.
  "never says busy to a reader's try once the writer is gone, also while a reader of its process waits": onClaim(
    (claim) => (claim.mode === "shared" && !claim.queues ? { mode: "exclusive" } : {}),
  ),

  "grants waiting claims in the order in which they came, even when no message arrives": onClaim(() => ({
    queues: false,
  })),
  "lets no claim pass the queue, not even one that does not queue": onClaim(() => ({ queues: false })),
  // Once it waits, it waits.
  "gives up the place of a waiting claim that asks without queueing, and never its lease": (right, { notes }) => ({
    attempt: (claim) => {
      if (claim.queues) notes.set(claim.id, claim);
      return right.attempt({ ...claim, queues: notes.has(claim.id) });
    },
  }),
  "keeps one place for a claim that asks again while it waits": (right) => ({
    attempt: async (claim) => {
      if (!(await holds(right, claim))) await right.release(claim);
      return right.attempt(claim);
    },
  }),
  "moves the others up when a waiting claim leaves": (right, { notes }) => ({
    attempt: async (claim) => {
      const answer = await right.attempt(claim);
      if (answer.granted) return answer;
      if (!notes.has(claim.id)) notes.set(claim.id, answer.position);
      return { ...answer, position: notes.get(claim.id) as number };
    },
  }),
  "brings a waiter news when its turn has come": () => ({ watch: (_, signal) => untilAborted(signal) }),
  "trusts a grant that came as news no longer than the store keeps it": (right) => ({
    watch: async (claim, signal) => {
      const granted = await right.watch?.(claim, signal);
      return granted && { ...granted, ttlMs: claim.ttlMs * 3 };
    },
  }),
  "ends a watch when its signal aborts, and keeps the claim's place": (right) => ({
    watch: async (claim, signal) => {
      const granted = await right.watch?.(claim, signal);
      if (granted === undefined) await right.release(claim);
      return granted;
    },
  }),
  "does not leave a watch hanging when the grant came before it": (right) => ({
    watch: async (claim, signal) => ((await holds(right, claim)) ? untilAborted(signal) : right.watch?.(claim, signal)),
  }),
  "lets the living pass a waiter that died": onClaim(() => ({ ttlMs: 1e9 })),
  "hands over in one step: swap() releases one claim and attempts the next": (right) => ({
    swap: async (_, next) => right.attempt(next),
  }),
  "lets those who wait go first in a swap()": (right, { claims }) => ({
    attempt: async (claim) => {
      claims.push(claim);
      return right.attempt(claim);
    },
    swap: async (held, next) => {
      for (const claim of [...claims, held]) await right.release(claim);
      return right.attempt(next);
    },
  }),

  "gives every lease a greater fence than the one before it, whichever process asks": (right) => {
    let fence = 0n;
    return onGrant(right, () => ({ fence: ++fence }));
  },
  "gives a greater fence after a lease that ended by itself": (right, shared) => ({
    ...onGrant(right, () => ({ fence: BigInt(shared.count), run: 1 })),
    release: async (claim) => {
      shared.count++;
      return right.release(claim);
    },
  }),
  "gives a greater fence to a waiter that was handed the lock": (right, { notes }) => ({
    attempt: async (claim) => {
      const answer = await right.attempt(claim);
      if (!answer.granted) notes.set(claim.id, "waited");
      return answer.granted && notes.has(claim.id) ? { ...answer, fence: 1n } : answer;
    },
  }),
  "gives a claim that ended and asks again a new lease with a greater fence": (right, { notes }) => ({
    attempt: async (claim) => {
      const answer = await right.attempt(claim);
      const known = notes.get(claim.id) as Granted | undefined;
      return known ?? note(notes, claim, answer);
    },
  }),
  "reserves the whole run of a grant, so that no later lease has a fence of it": (right) =>
    onGrant(right, ({ run }) => ({ run: run + 1 })),
  "fences a shared lease at or above the last exclusive one and below the next": (right) =>
    onGrant(right, (_, claim) => (claim.mode === "shared" ? { fence: 0n } : {})),
  "reserves no run where several may hold, so that later holders always have greater fences": (right) =>
    onGrant(right, () => ({ run: 64 })),

  "lets shared claims hold together, and an exclusive one only when all have left": onClaim(() => ({
    mode: "exclusive",
  })),
  "keeps shared claims out while an exclusive one holds, then lets all of them in": sharedElsewhere(),
  "does not let a stream of readers starve a waiting writer": (right) => ({
    attempt: async (claim) => {
      const answer = await right.attempt(claim);
      if (answer.granted || claim.mode === "exclusive") return answer;
      const readersHold = answer.heldBy.every(({ mode }) => mode === "shared");
      return readersHold ? { granted: true, fence: 1n, run: 1 } : answer;
    },
  }),
  "lets as many hold as the limit says, and one more for each that leaves": onClaim(() => ({ limit: 1 })),
  "keeps shared and limited claims apart": sharedElsewhere(),
  "refuses a claim whose limit differs from the holders', naming both": (right) => ({
    attempt: (claim) => right.attempt(claim).catch(() => ({ granted: false, heldBy: [] })),
  }),
  "takes a new limit once no claim holds or waits": (right, { notes }) => ({
    attempt: async (claim) => {
      const limit = (notes.get(claim.name) ?? claim.limit) as number;
      notes.set(claim.name, limit);
      return limit === claim.limit ? right.attempt(claim) : { granted: false, heldBy: [] };
    },
  }),
  "ends a dead reader's lease at its own time, though other readers keep renewing": (right, { claims }) => ({
    attempt: async (claim) => {
      if (claim.mode === "shared") claims.push(claim);
      return right.attempt(claim);
    },
    renew: async (asked) => (await right.renew([...asked, ...claims])).slice(0, asked.length),
  }),

  "keeps a lease for its whole ttl": onClaim((claim) => ({ ttlMs: claim.ttlMs / 2 })),
  "ends the lease of a holder that died, so that the next gets in": onClaim(() => ({ ttlMs: 1e9 })),
  "ends a lease that is not renewed, though its process lives": onClaim(() => ({ ttlMs: 1e9 })),
  "answers no for a lease that expired, even when no other claim wanted the lock": (right) => ({
    renew: async (claims) =>
      Promise.all(claims.map((claim) => right.attempt(claim).then(() => ({ held: true }) as const))),
  }),
  "keeps a renewed lease for a whole ttl after the renewal": () => ({
    renew: async (claims) => claims.map(() => ({ held: true })),
  }),
  "renews a lease, not a claim: one that has taken the lock again has another": (right) => ({
    renew: (claims) => right.renew(claims),
  }),
  "answers each renewal by itself, in the order asked": (right) => ({
    renew: async (claims) => {
      const answers = await right.renew(claims);
      return answers.find(({ held }) => held === false) === undefined
        ? answers
        : answers.map(() => ({ held: false, reason: "one of the batch was gone" }));
    },
  }),
  "keeps a lock released before its minHold until that age, and no longer": (right) => ({
    release: (claim) => right.release({ ...claim, minHoldMs: 0 }),
  }),
  "frees a lock at once when it is released after its minHold": (right) => ({
    release: (claim) => right.release({ ...claim, minHoldMs: claim.minHoldMs * 100 }),
  }),
  // Takes the minHold from its own record, as stores that keep one are tempted to.
  "keeps no claim away for a minHold that the release does not name: the lease was never used": (right, { notes }) => ({
    attempt: (claim) => (notes.set(claim.id, claim), right.attempt(claim)),
    release: (claim) => right.release({ ...claim, ...(notes.get(claim.id) as Claim | undefined) }),
  }),
  "keeps the lock for ttl and lockDelay after an unclean end": onClaim(() => ({ lockDelayMs: 0 })),
  "waits for no lockDelay after a clean release": (right) => ({
    release: (claim) => right.release({ ...claim, minHoldMs: claim.lockDelayMs }),
  }),

  "shows who holds: name, mode, limit, holder, fence, age, remaining time and meta": onQuery(({ held, ...rest }) => ({
    ...rest,
    held: held.map((holding) => ({ ...holding, meta: {} })),
  })),
  "shows who waits, in order": onQuery(({ pending, ...rest }) => ({ ...rest, pending: pending.toReversed() })),
  "says to a refused claim who holds the lock": (right) => ({
    attempt: async (claim) => {
      const answer = await right.attempt(claim);
      return answer.granted ? answer : { ...answer, heldBy: [] };
    },
  }),
  "shows only locks whose name starts with the prefix, taken literally": (right) => ({
    query: async (prefix) => {
      const pattern = new RegExp(
        `^${prefix
          .replaceAll(/[.[\]\\+]/g, "\\$&")
          .replaceAll("*", ".*")
          .replaceAll("?", ".")}`,
      );
      const all = await right.query("");
      return { ...all, held: all.held.filter(({ name }) => pattern.test(name)) };
    },
  }),
  "ends by force the lease with that fence, and no other": (right) => ({
    forceRelease: async (name, _, by, reason) => {
      const [holding] = (await right.query(name)).held;
      return holding !== undefined && right.forceRelease(name, holding.fence, by, reason);
    },
  }),
  "ends by force a lease named by any fence of its run": (right) => ({
    forceRelease: async (name, fence, by, reason) => {
      const named = (await right.query(name)).held.some((holding) => holding.fence === fence);
      return named && right.forceRelease(name, fence, by, reason);
    },
  }),
  "ends by force one of several holders, and leaves the others": (right) => ({
    forceRelease: async (name, _, by, reason) => {
      for (const { fence } of (await right.query(name)).held) await right.forceRelease(name, fence, by, reason);
      return true;
    },
  }),
  "hands a lock whose lease was ended by force to the next waiter": () => ({ forceRelease: async () => true }),
  "reports to the holder that its lease was ended by force, and why": () => ({ listen: () => undefined }),
  "keeps a record of who ended a lease by force, and why": onQuery((snapshot) => ({ ...snapshot, forced: [] })),

  // As one that looks with a prefix.
  "shows one lock by its exact name: who holds it, who waits in which order, who was forced out": (right) => ({
    inspect: (name) => right.query(name),
  }),
  // Counted for each lock by itself.
  "says in which order claims were queued, for one lock or for several: the same in every answer": onInspect(
    ({ pending }) => ({ pending: pending.map((waiting) => ({ ...waiting, order: BigInt(waiting.position) })) }),
  ),
  "says of a lock that is only kept for its minHold that no claim holds it": onInspect(({ held }) => ({
    held: held.map((holding) => ({ ...holding, remainder: undefined })),
  })),
  "says of a lock that is only kept for its lockDelay that no claim holds it": onInspect(({ held }) => ({
    held: held.filter(({ remainder }) => remainder === undefined),
  })),
  "shows what a process says of its own queue, and writes it anew when it has changed": (right) => ({
    renew: (claims, fences) =>
      right.renew(
        claims.map((claim) => ({ ...claim, changed: false })),
        fences,
      ),
  }),

  "tells the holder that a claim queues for its lock, and nothing of one that does not queue": onClaim(() => ({
    queues: true,
  })),
  "says with a grant and with a renewal that a claim queues": (right) => onGrant(right, () => ({ wanted: undefined })),
  // Only the first of them.
  "tells all readers that a writer waits": (right, shared) => ({
    listen: (listener) => {
      const isFirst = shared.count++ === 1;
      right.listen?.({ ...listener, wanted: (id) => isFirst && listener.wanted?.(id) });
    },
  }),

  "tells the oldest of several holders that a claim waits for a place": (right) => ({
    renew: async (claims, fences) =>
      (await right.renew(claims, fences)).map((renewal) => ({ ...renewal, wanted: true })),
  }),

  "reserves fences for a lease that lingers, and shows to all how long it may": onClaim(() => ({
    lingerMs: undefined,
  })),
  "serves a waiter, and a try, of another process while a hold lingers": (right) => ({
    listen: (listener) => right.listen?.({ ...listener, wanted: () => undefined }),
  }),

  "renews a lease for a longer ttl than it was granted for": (right, { notes }) => ({
    attempt: (claim) => (notes.set(claim.id, claim.ttlMs), right.attempt(claim)),
    renew: (claims, fences) =>
      right.renew(
        claims.map((claim) => ({ ...claim, ttlMs: notes.get(claim.id) as number })),
        fences,
      ),
  }),
  // The time of the last renewal counts, whatever was promised before.
  "ends no lease sooner because it was renewed for a shorter ttl": (right, { notes }) => ({
    renew: async (claims, fences) => {
      const renewals = await right.renew(claims, fences);
      for (const claim of claims) notes.set("until", [claim, claim.ttlMs]);
      return renewals;
    },
    attempt: async (claim) => {
      const answer = await right.attempt(claim);
      const [renewed] = (notes.get("until") ?? []) as Claim[];
      if (answer.granted || renewed === undefined) return answer;
      return answer.heldBy[0]!.heldMs > renewed.ttlMs ? { granted: true, fence: 1n, run: 1 } : answer;
    },
  }),

  "keeps an outcome with a release, and answers with it those who want one": (right) => ({
    release: (claim) => right.release(claim),
  }),
  "keeps no outcome of a claim that does not hold the lock": (right, { notes }) => ({
    release: async (claim, outcome) => {
      if (outcome !== undefined) notes.set(claim.name, outcome);
      return right.release(claim, outcome);
    },
    inspect: async (name) => {
      const kept = notes.get(name) as { readonly value: string } | undefined;
      const state = await right.inspect(name);
      return kept === undefined
        ? state
        : { ...state, outcome: { ...kept, fence: 1n, holder: "", ageMs: 0, remainingMs: 1 } };
    },
    forget: async () => true,
  }),
  "answers a release with an outcome that is asked for again as it did the first time": (right, { notes }) => ({
    release: async (claim, outcome) => {
      const isSecond = notes.has(claim.id);
      notes.set(claim.id, true);
      return right.release(claim, isSecond ? undefined : outcome);
    },
  }),
  "brings news to all who wait for an outcome, and the lock to the next who does not": (right) => ({
    watch: (claim, signal) => (claim.wantsOutcome === true ? untilAborted(signal) : right.watch!(claim, signal)),
  }),
  "keeps an outcome for as long as was asked, and no longer": (right) => ({
    release: (claim, outcome) => right.release(claim, outcome && { ...outcome, keepMs: outcome.keepMs / 2 }),
  }),
  "removes an outcome by the fence of its lease, and nothing else": (right) => ({
    forget: async (name) => {
      const { outcome } = await right.inspect(name);
      return outcome !== undefined && right.forget!(name, outcome.fence);
    },
  }),
  "keeps outcomes as they are: long ones, empty ones, and any characters": (right) => ({
    release: (claim, outcome) => right.release(claim, outcome && { ...outcome, value: outcome.value.slice(0, 65_000) }),
  }),

  "steals a lock from its holder, before all who wait, and says so to all": (right) => ({
    steal: async (claim, reason) => {
      for (const { fence } of (await right.inspect(claim.name)).held) {
        await right.forceRelease(claim.name, fence, claim.holder, reason);
      }
      return right.attempt(claim);
    },
  }),
  "steals from all who share a lock, and from what a minHold keeps": (right) => ({
    steal: async (claim, reason) => {
      const [holding] = (await right.inspect(claim.name)).held;
      if (holding !== undefined) await right.forceRelease(claim.name, holding.fence, claim.holder, reason);
      return right.attempt(claim);
    },
  }),
  "gives a thief that holds the lock the lease that it has, and takes a free one as any claim": (right) => ({
    steal: async (claim, reason) => {
      await right.release(claim);
      return right.steal!(claim, reason);
    },
  }),

  "takes any string as a name, and never confuses two": onClaim((claim) => ({ name: claim.name.normalize("NFC") })),
  "takes names of 1 KiB that differ in their last character only": onClaim((claim) => ({
    name: claim.name.slice(0, 255),
  })),

  "runs functions one at a time, within a process and across, with rising fences": onClaim((claim) => ({
    name: claim.name + claim.id,
  })),
  "resolves tryAcquire() to null while another process holds the lock": onClaim((claim) => ({
    name: claim.name + claim.id,
  })),
  "gives up waiting in time, says who holds the lock, and leaves no claim behind": keepsWaiting,
  "stops waiting when the caller's signal aborts, and leaves no claim behind": keepsWaiting,
  "keeps a lease alive for as long as its holder wants it": () => ({
    renew: async (claims) => claims.map(() => ({ held: true })),
  }),
  "takes several locks all or none": () => ({ release: async () => "held", swap: undefined as never }),
  "aborts a holder's signal when its lease was ended by force": () => ({ forceRelease: async () => true }),
  "releases everything on close()": () => ({ release: async () => "held" }),

  "votes for a ballot when the lock is free, and for the same ballot again": (right) => ({
    vote: async (claim, ballot) =>
      (await holds(right, claim)) ? { vote: "low", fence: ballot } : right.vote(claim, ballot),
  }),
  "votes for no other claim while the lock is held, and says who holds it": onClaim((claim) => ({
    name: claim.name + claim.id,
  })),
  "never votes for a ballot that is not above every fence before it": (right) => ({
    vote: async (claim, ballot) => {
      const answer = await right.vote(claim, ballot);
      return answer.vote === "low" ? { vote: "granted" } : answer;
    },
  }),
  "keeps a vote for the ttl, renews it, and takes it back on release": onClaim((claim) => ({
    ttlMs: claim.ttlMs / 4,
  })),
};
