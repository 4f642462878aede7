/** Guards of the core, switched off one by one: every one of them must make some world red. */
import type { Backend, Claim, Granted, Refused } from "../../src/contract/backend.ts";
import type { Oracle } from "../../src/testing/index.ts";
import type { Mutation } from "../../src/testing/simulation/world.ts";

export interface Guard {
  readonly off: string;
  /** Made anew for every world, as it may remember. */
  readonly mutation: () => Mutation;
  /** Which oracles may be the first to notice. */
  readonly noticedBy: readonly Oracle[];
}

const WHOLE: readonly Oracle[] = ["O1 exclusion", "O3 no foreign release", "O4 early signal"];

export const guards: readonly Guard[] = [
  {
    off: "the holder check: a release ends the lease of any holder",
    mutation: () => {
      const claims = new Map<string, Claim[]>();
      return {
        store: (right) => {
          const note = (claim: Claim): void => {
            claims.set(claim.name, [...(claims.get(claim.name) ?? []), claim]);
          };
          return {
            attempt: async (claim) => (note(claim), right.attempt(claim)),
            swap: async (held, next) => (note(next), right.swap!(held, next)),
            release: async (claim) => {
              const own = await right.release(claim);
              if (own !== "absent") return own;
              const released = await Promise.all((claims.get(claim.name) ?? []).map((other) => right.release(other)));
              return released.includes("held") ? "held" : "absent";
            },
          };
        },
      };
    },
    noticedBy: WHOLE,
  },
  {
    off: "the drift margin: belief lasts for the whole ttl",
    mutation: () => ({
      client: (right) => onGrants(right, (granted, claim) => ({ ...granted, ttlMs: (claim.ttlMs + 2) / 0.99 })),
    }),
    noticedBy: WHOLE,
  },
  {
    off: "the look at the outcome: a claim that wants one is granted the lock all the same",
    mutation: () => ({
      store: (right) => ({ attempt: (claim) => right.attempt({ ...claim, wantsOutcome: false }) }),
    }),
    noticedBy: ["O9 once", "O5 liveness"],
  },
  {
    off: "the fence compare: the guarded store lets every write in",
    mutation: () => ({ guard: () => true }),
    noticedBy: ["O2 fenced store"],
  },
  {
    off: "the clean-up of late grants: a claim that stops waiting is not released",
    mutation: () => ({
      client: (right) => {
        const granted = new Set<string>();
        const goneEarly = new Set<string>();
        return {
          ...onGrants(right, (answer, claim) => (granted.add(claim.id), answer)),
          release: async (claim) => {
            if (!granted.has(claim.id)) goneEarly.add(claim.id);
            return goneEarly.has(claim.id) ? "queued" : right.release(claim);
          },
        };
      },
    }),
    noticedBy: ["O5 liveness", "O6 no leak"],
  },
  {
    off: "the clock read before the request leaves: trust counts from the answer",
    mutation: () => ({
      client: (right, process) => onGrants(right, (granted) => ({ ...granted, fromMs: process.clock.now() })),
    }),
    noticedBy: WHOLE,
  },
  {
    off: "the certain no: a store that lost a lease takes it again behind the holder's back",
    mutation: () => ({
      store: (right) => ({
        renew: async (claims) => {
          const renewals = await right.renew(claims);
          return Promise.all(
            renewals.map(async (renewal, at) => {
              const claim = claims[at];
              if (renewal.held !== false || claim === undefined) return renewal;
              return (await right.attempt({ ...claim, queues: false })).granted ? { held: true } : renewal;
            }),
          );
        },
      }),
    }),
    noticedBy: [...WHOLE, "O8 truthfulness", "O6 no leak"],
  },
  {
    off: "the renewal itself: the store says yes and does nothing",
    mutation: () => ({ store: () => ({ renew: async (claims) => claims.map(() => ({ held: true })) }) }),
    noticedBy: WHOLE,
  },
  {
    off: "the reserved run: a grant is said to own the next one's fences too",
    mutation: () => ({ client: (right) => onGrants(right, (granted) => ({ ...granted, run: granted.run * 2 })) }),
    noticedBy: ["fences", "O8 truthfulness", ...WHOLE],
  },
  {
    off: "the news of a forced release: nothing tells of it, and every renewal is said to be well",
    mutation: () => ({
      troubles: ["force"],
      client: (right) => ({
        listen: () => undefined,
        renew: async (claims, fences) => (await right.renew(claims, fences)).map(() => ({ held: true })),
      }),
    }),
    noticedBy: ["O4 early signal"],
  },
  {
    off: "the doubt about what was sent twice: a no to the second counts as certain",
    mutation: () => ({ troubles: ["reset"], rules: { sentTwice: false } }),
    noticedBy: ["O8 truthfulness"],
  },
];

/** Edits every grant that reaches the core, whichever way it comes. */
function onGrants(right: Backend, edit: (granted: Granted, claim: Claim) => Granted): Partial<Backend> {
  const edited = <A extends Granted | Refused>(answer: A, claim: Claim): A =>
    (answer.granted ? { ...answer, ...edit(answer, claim) } : answer) as A;
  return {
    attempt: async (claim) => edited(await right.attempt(claim), claim),
    swap: async (held, next) => edited(await right.swap!(held, next), next),
    watch: async (claim, signal) => {
      const news = await right.watch!(claim, signal);
      return news && edited(news, claim);
    },
  };
}
