/**
 * Takes a lock by a claim of the caller's making, past the queue of this process: one that steals the lock, or one whose id is
 * known elsewhere. It does not wait for its turn. Only for the drop-ins: no verb of the locks does this.
 */
import { Acquisition } from "./acquisition.ts";
import type { AcquisitionFront } from "./acquisition-front.ts";
import type { AcquireOptions, Lease } from "./api.ts";
import type { Blockers } from "../contract/answer.ts";
import type { Backend } from "../contract/backend.ts";
import { declined } from "../contract/declined.ts";
import { asBackendError, LockBackendError, LockLostError, quote } from "../contract/errors.ts";
import type { LossReason } from "../contract/loss.ts";
import type { Engine } from "./engine.ts";
import type { Done, Grant } from "./grant.ts";
import { isHeard } from "./hold-events.ts";
import type { Inside } from "./inside.ts";
import { withoutLinger } from "./linger-option.ts";
import { answerMs, checkName, toClaim } from "./options.ts";
import type { HeldLease } from "./lease.ts";
import type { Asked, Queue, Request } from "./request.ts";
import { announced, takeTraced } from "./traced.ts";

export interface OwnClaim {
  /** 128 random bits, base64url. */
  readonly id: string;
  /** All leases of the lock are ended by force, for this reason. Absent: it is taken only if it is free. */
  readonly stealsFor?: string | undefined;
}

/** `null`: the lock is not free. One that steals rejects where the backend cannot do that. */
export async function takeByClaim(
  { engine, checked }: Inside,
  name: string,
  options: AcquireOptions,
  own: OwnClaim,
): Promise<Lease | null> {
  checkName(name);
  const { backend, clock, contention } = engine;
  const can = backend.can ?? {};
  if (own.stealsFor !== undefined && can.steal !== true) throw declined(backend.name, can, "steal", name);
  // What its id is known for elsewhere is over with its release.
  const spec = { ...withoutLinger("takeByClaim", options, () => checked(options)), waitMs: 0 };
  const waitMs = answerMs(spec);
  const way = {
    backend,
    clock,
    contention,
    get closed(): boolean {
      return engine.closed;
    },
    takeOrOutcome: ((_, itsOptions, __, itsMs, event) =>
      engine.takePast(new Past(engine, name, own), itsOptions, itsMs, event)) as Engine["takeOrOutcome"],
  };
  const take = engine.isTraced
    ? takeTraced(way, name, spec, "try", waitMs)
    : way.takeOrOutcome(name, spec, "try", waitMs);
  const taking = take as Promise<HeldLease | null>;
  return await (isHeard(engine) ? announced(engine, taking) : taking);
}

/** The place of one request that goes past the queue. */
class Past implements Queue, AcquisitionFront<Acquisition<Request>> {
  readonly name: string;
  readonly #engine: Engine;
  readonly #own: OwnClaim;
  #acquisition: Acquisition<Request> | undefined;
  /** What the store said of the claim before its grant was here. The grant is older. */
  #news: LossReason | "doubt" | undefined;

  constructor(engine: Engine, name: string, own: OwnClaim) {
    this.name = name;
    this.#engine = engine;
    this.#own = own;
  }

  enter(request: Request): void {
    const { parts, holder, backend } = this.#engine;
    const { id, stealsFor } = this.#own;
    const claim = toClaim(id, this.name, holder, request.options, false);
    const asked = stealsFor === undefined ? backend : stealing(backend, stealsFor);
    // What lingers here would be in its way.
    this.#engine.queueOf(this.name)?.letGo();
    // Its release may have run anything.
    if (request.settled) return;
    this.#acquisition = new Acquisition({ ...parts, backend: asked }, claim, request, this);
    this.#acquisition.untilMs = request.untilMs;
    this.#engine.past.set(id, (loss) => (this.#news = loss ?? this.#news ?? "doubt"));
    this.#acquisition.start();
  }

  leave(): void {
    this.#callOff();
  }

  blockers(): Blockers {
    return this.#acquisition?.blockers(this.#engine.clock.now()) ?? { heldBy: [] };
  }

  refusalOf(): Asked | undefined {
    const isRefused = this.#acquisition?.refused !== undefined && this.#own.stealsFor === undefined;
    return isRefused ? this.#acquisition : undefined;
  }

  trouble(): unknown {
    return this.#acquisition?.troubleAt(this.#engine.clock.now());
  }

  nudge(): void {}

  #callOff(): void {
    this.#engine.past.delete(this.#own.id);
    const acquisition = this.#acquisition;
    if (acquisition !== undefined) this.#engine.releases.track(acquisition.claim, acquisition.callOff());
  }

  onEnded(
    acquisition: Acquisition<Request>,
    grant: Grant | Done | undefined,
    failure?: { readonly error: unknown },
  ): void {
    const { request } = acquisition;
    this.#engine.past.delete(this.#own.id);
    // It has been called off then.
    if (request.settled) return;
    const { backend } = this.#engine;
    if (failure !== undefined) {
      this.#callOff();
      request.fail(asBackendError(backend.name, this.name, failure.error));
    } else if (grant !== undefined && "granted" in grant) this.#begin(acquisition, grant);
    else if (this.#own.stealsFor === undefined) request.refuse(this.blockers(), acquisition);
    else {
      // Its first question had no answer, and may still arrive.
      this.#callOff();
      request.fail(this.#unanswered("the store did not say whether it was stolen"));
    }
  }

  /** What was robbed here ends first: nothing is held twice, and its users learn of it before the thief has it. */
  #begin(acquisition: Acquisition<Request>, grant: Grant): void {
    const { request } = acquisition;
    const { fence } = grant.granted;
    const { stealsFor } = this.#own;
    if (stealsFor !== undefined) {
      const robbed = this.#engine.queueFor(this.name).holds.filter(({ firstFence }) => firstFence < fence);
      for (const hold of robbed) hold.lose({ kind: "forced", by: this.#engine.holder, reason: stealsFor });
    }
    // Where it was ended by force before it was here, it is not begun. What is only doubted can be asked for by a thief.
    const isEnded = this.#news !== undefined && (this.#news !== "doubt" || stealsFor === undefined);
    // Their listeners may have closed the locks, or made so many others that the queue was put away.
    const wanted = request.settled || isEnded ? undefined : request;
    const isBegun = this.#engine.queueFor(this.name).begin(acquisition, wanted, grant);
    // Another thief's news of it may be lost.
    if (isBegun && stealsFor !== undefined) this.#engine.doubtOne(acquisition.claim.id);
    if (isBegun || request.settled) return;
    if (!isEnded) request.fail(this.#unanswered("its grant was over too soon"));
    else if (stealsFor === undefined) request.refuse(this.blockers(), acquisition);
    else request.fail(new LockLostError(this.name, fence, this.#news as LossReason));
  }

  #unanswered(why: string): LockBackendError {
    const { name } = this.#engine.backend;
    return new LockBackendError(name, this.name, `Lock ${quote(this.name)} was not acquired: ${why}.`);
  }
}

/** The store for a claim that steals: asked again it is only attempted, so that nothing is stolen twice. */
function stealing(backend: Backend, reason: string): Backend {
  let asked = false;
  return {
    name: backend.name,
    attempt(claim) {
      if (asked) return backend.attempt(claim);
      asked = true;
      return backend.steal!(claim, reason);
    },
    renew: (claims, fences) => backend.renew(claims, fences),
    release: (claim) => backend.release(claim),
    query: (prefix) => backend.query(prefix),
    inspect: (name) => backend.inspect(name),
    forceRelease: (name, fence, by, why) => backend.forceRelease(name, fence, by, why),
    close: () => backend.close(),
  };
}
