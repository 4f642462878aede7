/** Ways to break a backend: replace one method, edit one answer, and keep the rest right. */
import type { Backend, Claim, Granted, LockState, Member, Refused, Snapshot } from "../../src/contract/backend.ts";
import { memory, memoryStore, type MemoryStore } from "../../src/backends/memory/index.ts";
import { type ConformanceContext, FakeClock } from "../../src/testing/index.ts";

export type Change = (right: Member, shared: Shared) => Partial<Member>;

/** What all backends of one broken store have in common. */
export interface Shared {
  readonly store: MemoryStore;
  readonly claims: Claim[];
  readonly notes: Map<string, unknown>;
  count: number;
}

/** A conformance context whose backends are broken in one way. */
export function brokenContext(change: Change): ConformanceContext {
  const clock = new FakeClock();
  const shared: Shared = { store: memoryStore({ clock }), claims: [], notes: new Map(), count: 1 };
  return {
    open: () => {
      const right = delegate(memory({ store: shared.store }));
      return { ...right, ...change(right, shared) };
    },
    clock,
    sleep: (ms) => clock.sleep(ms),
  };
}

/** The same backend as a plain object, so that single methods can be replaced. */
export function delegate(backend: Member): Member {
  return {
    name: backend.name,
    can: backend.can,
    attempt: (claim) => backend.attempt(claim),
    watch: (claim, signal) => backend.watch?.(claim, signal) ?? Promise.resolve(undefined),
    renew: (claims, fences) => backend.renew(claims, fences),
    release: (claim, outcome) => backend.release(claim, outcome),
    swap: (held, next) => backend.swap?.(held, next) ?? backend.attempt(next),
    query: (prefix) => backend.query(prefix),
    inspect: (name) => backend.inspect(name),
    ...(backend.steal && { steal: (claim, reason) => backend.steal!(claim, reason) }),
    ...(backend.forget && { forget: (name, fence) => backend.forget!(name, fence) }),
    forceRelease: (name, fence, by, reason) => backend.forceRelease(name, fence, by, reason),
    listen: (listener) => backend.listen?.(listener),
    vote: (claim, ballot) => backend.vote(claim, ballot),
    close: () => backend.close(),
  };
}

export function onClaim(edit: (claim: Claim) => Partial<Claim>): Change {
  const edited = (claim: Claim): Claim => ({ ...claim, ...edit(claim) });
  return (right) => ({
    attempt: (claim) => right.attempt(edited(claim)),
    watch: (claim, signal) => right.watch?.(edited(claim), signal) ?? Promise.resolve(undefined),
    renew: (claims, fences) =>
      right.renew(
        claims.map((claim) => edited(claim)),
        fences,
      ),
    release: (claim, outcome) => right.release(edited(claim), outcome),
    vote: (claim, ballot) => right.vote(edited(claim), ballot),
  });
}

export function onGrant(right: Backend, edit: (granted: Granted, claim: Claim) => Partial<Granted>): Partial<Member> {
  return {
    attempt: async (claim) => {
      const answer = await right.attempt(claim);
      return answer.granted ? { ...answer, ...edit(answer, claim) } : answer;
    },
  };
}

export function onQuery(edit: (snapshot: Snapshot) => Snapshot): Change {
  return (right) => ({ query: async (prefix) => edit(await right.query(prefix)) });
}

export function onInspect(edit: (state: LockState) => Partial<LockState>): Change {
  return (right) => ({
    inspect: async (name) => {
      const state = await right.inspect(name);
      return { ...state, ...edit(state) };
    },
  });
}

export function sharedElsewhere(): Change {
  return onClaim((claim) => ({ name: claim.mode === "shared" ? `${claim.name}/shared` : claim.name }));
}

export function releaseByName(right: Member): Partial<Member> {
  return {
    release: async (claim) => {
      const own = await right.release(claim);
      if (own !== "absent") return own;
      for (const { fence } of (await right.query(claim.name)).held) {
        await right.forceRelease(claim.name, fence, "broken", "release by name");
      }
      return "absent";
    },
  };
}

export function keepsWaiting(right: Member): Partial<Member> {
  return { release: async (claim) => ((await holds(right, claim)) ? right.release(claim) : "queued") };
}

export async function holds(backend: Backend, claim: Claim): Promise<boolean> {
  const [renewal] = await backend.renew([claim]);
  return renewal?.held === true;
}

export function note(notes: Map<string, unknown>, claim: Claim, answer: Granted | Refused): Granted | Refused {
  if (answer.granted) notes.set(claim.id, answer);
  return answer;
}

export function untilAborted(signal: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(undefined);
    else signal.addEventListener("abort", () => resolve(undefined), { once: true });
  });
}
