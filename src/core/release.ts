/**
 * Everything that goes back to the store: holds that are released, and claims that are no longer wanted. A store that is
 * silent is asked again; the holder has its answer in bounded time; the asking goes on behind it until the store has let go
 * by itself. close() waits here, so that nothing is left behind without being named.
 */
import { Deadlines, type Deadline } from "../contract/deadlines.ts";
import type { ReleaseResult } from "./api.ts";
import type { Backend, Claim, Granted, Outcome, Refused, Released } from "../contract/backend.ts";
import type { Clock } from "../contract/clock.ts";
import type { Hold } from "./hold.ts";
import { publishLost } from "./hold-events.ts";
import { asked } from "../contract/answer.ts";
import { releaseUntil, type Runtime, SILENCE_MS } from "./release-until.ts";
import { within, withinAwake } from "../contract/time-limit.ts";

/** Looked through when there are more. */
const LOST_MAX = 256;
/** How long a second asking waits for what the store says of the fence. */
const PROOF_MS = 250;
const PATIENCE_MIN_MS = 100;
const PATIENCE_MAX_MS = 5000;
const RELEASED: ReadonlySet<Released> = new Set(["held", "queued", "absent"] as const);

/** A release that the store has not answered yet. */
class Pending implements Deadline {
  readonly hold: Hold;
  readonly resolve: (result: ReleaseResult | Promise<never>) => void;
  /** It was asked for more than once, so that "absent" may be our own doing. */
  repeated = false;
  /** The holder has its answer. */
  answered = false;
  /** The machine had slept: that the claim held the lock does not prove that its lease did. */
  readonly inDoubt: boolean;
  /** Nor does it where a late question may have taken the lock anew: what the store says of the fence does. */
  readonly needsProof: boolean;
  /** What the store has said of the lease with its fence, before its release was asked for. `false`: whatever that says of the claim, it was lost. */
  proof: boolean | undefined;
  /** A release was asked for: a no to the lease that comes after that may be its doing. */
  isSent = false;

  // The deadlines' own notes.
  atMs = 0;
  heapIndex = -1;

  constructor(hold: Hold, resolve: (result: ReleaseResult | Promise<never>) => void, inDoubt: boolean) {
    this.hold = hold;
    this.resolve = resolve;
    this.inDoubt = inDoubt;
    // The store compares fences where it is to keep an outcome.
    this.needsProof = inDoubt || (hold.echoes && hold.outcome === undefined);
  }

  /** That the claim held the lock says that its lease did. */
  get isProven(): boolean {
    return !this.needsProof || this.proof === true;
  }
}

export class Releases {
  readonly #around: Runtime;
  readonly #clock: Clock;
  readonly #backend: Backend;
  /** Those whose holder waits for an answer. */
  readonly #waiting: Deadlines<Pending>;
  /** Lost, and still in use: the store may have their leases yet, until their users are done or the locks are closed. */
  readonly lost: Set<Hold> = new Set();
  #lostMax = LOST_MAX;
  /** What goes on while no caller waits, with the claims that it is about. */
  readonly #behind: Map<Promise<unknown>, Claim> = new Map();
  #idle: ((is: true) => void) | undefined;
  /** How often the store has answered. */
  #answers = 0;
  #stopped = false;

  constructor(around: Runtime) {
    this.#around = around;
    this.#clock = around.clock;
    this.#backend = around.backend;
    this.#waiting = new Deadlines<Pending>(around.clock, true, (nowMs) => this.#late(nowMs));
  }

  /** The hold is lost. Not one with a delay after an unclean end: the store keeps that. */
  keepLost(hold: Hold): void {
    if (hold.claim.lockDelayMs > 0) return;
    this.lost.add(hold);
    if (this.lost.size < this.#lostMax) return;
    // Those that are never released are not kept for ever: the store has let go of them by now.
    const nowMs = this.#clock.now();
    for (const lost of this.lost) if (nowMs > lost.fromMs + 2 * lost.longestTtlMs) this.lost.delete(lost);
    this.#lostMax = Math.max(LOST_MAX, 2 * this.lost.size);
  }

  /** A lost hold is no longer used: freed early. */
  async freeLost(hold: Hold): Promise<ReleaseResult> {
    if (this.lost.delete(hold)) await this.#free(hold);
    return "lost";
  }

  freeAllLost(): void {
    for (const hold of this.lost) void this.freeLost(hold);
  }

  /** As {@link release}, where no caller wants to know what a backend has answered by mistake. */
  async #free(hold: Hold): Promise<void> {
    await this.release(hold).catch(() => {});
  }

  /** Releases a hold, and says what became of it in bounded time. Rejects only if the backend gives an invalid answer. */
  release(hold: Hold, nowMs: number = this.#clock.now()): Promise<ReleaseResult> {
    return this.#send(hold, nowMs);
  }

  /** The claim may hold the lock anew, by an attempt that was long on its way: the old lease is not that one. */
  async #prove(pending: Pending): Promise<void> {
    const { hold, inDoubt } = pending;
    const [renewal] = await this.#backend.renew([hold.claim], [hold.firstFence]);
    const held = renewal?.held;
    const isCertain = held === true || (held === false && !pending.isSent);
    if (isCertain && (held || inDoubt || hold.isUnexpired(this.#clock.now()))) pending.proof ??= held;
  }

  #ask(pending: Pending, outcome: Outcome | undefined): Promise<Released> {
    pending.isSent = true;
    return this.#backend.release(pending.hold.claim, outcome);
  }

  /** What was done under a lease that is perhaps another one by now is not kept. */
  async #askByFence(pending: Pending): Promise<Released> {
    await this.#prove(pending);
    return await this.#ask(pending, pending.proof === true ? pending.hold.outcome : undefined);
  }

  /** Releases a hold and asks for the next claim in one step of the store. `answer` is the next claim's. */
  swap(
    hold: Hold,
    nowMs: number,
    next: Claim,
    answer: (asked: Promise<Granted | Refused>) => void,
  ): Promise<ReleaseResult> {
    return this.#send(hold, nowMs, () => {
      // Followed before anything else: one that fails at once must not leave the next claim without a question.
      const answered = asked(() => this.#backend.swap!(hold.claim, next));
      answer(answered);
      return answered.then((swapped) => swapped?.released);
    });
  }

  /** Those that are being taken back, of which something may be in the store yet. */
  get claims(): readonly Claim[] {
    return [...this.#waiting.all().map(({ hold }) => hold.claim), ...this.#behind.values()];
  }

  /** Remembers what is still under way for a claim that is not waited for, until it has settled. `work`: whether the store answered. */
  track(claim: Claim, work: Promise<boolean>): void {
    this.#behind.set(work, claim);
    const forget = (isAnswered: boolean): void => {
      if (isAnswered) this.#answers++;
      this.#behind.delete(work);
      this.#lookIfIdle();
    };
    work.then(forget, () => forget(false));
  }

  /** Resolves when nothing is under way, or after `ms` in which this process ran and the store answered nothing. */
  async settled(ms: number): Promise<void> {
    const idle = new Promise<true>((resolve) => {
      this.#idle = resolve;
      this.#lookIfIdle();
    });
    await withinAwake(this.#clock, idle, ms, () => this.#answers);
  }

  /** Asks for nothing more. Callers that still wait for an answer get one now. */
  stop(): void {
    this.#stopped = true;
    for (const pending of this.#waiting.all()) this.#answer(pending, "unknown");
    this.#waiting.stop();
  }

  /** `nowMs`: when its last lease was released. `ask`: another way to ask than a release of its own. */
  #send(hold: Hold, nowMs: number, ask?: () => Promise<Released | undefined>): Promise<ReleaseResult> {
    // After the end the store cannot be asked: what is left goes by itself.
    if (this.#stopped) return Promise.resolve("unknown");
    return new Promise((resolve) => {
      const inDoubt = hold.inDoubt(nowMs);
      const pending = new Pending(hold, resolve, inDoubt);
      const wasSure = hold.isUnexpired(nowMs, inDoubt);
      this.#waiting.set(pending, nowMs + Math.min(SILENCE_MS, hold.ttlMs / 3));
      const first = pending.needsProof
        ? this.#askByFence.bind(this, pending)
        : this.#ask.bind(this, pending, hold.outcome);
      asked<Released | undefined>(ask ?? first).then(
        (was) => this.#heard(pending, was, wasSure),
        () => this.#again(pending),
      );
    });
  }

  /** The answer to the first asking. */
  #heard(pending: Pending, was: Released | undefined, wasSure: boolean): void {
    this.#answers++;
    if (was === "held") return this.#answer(pending, pending.isProven ? "released" : "unknown");
    // Once it was asked for again, "no" proves nothing: the second asking may have been the first to arrive. ("queued": a late
    // attempt of the same claim arrived in between. It may even hold the lock anew, but then the lease was released before.)
    if (pending.repeated) return;
    if (was === "queued") return this.#answer(pending, "lost");
    if (was !== undefined && was !== "absent") return this.#mistaken(pending, was);
    const { hold } = pending;
    const stillSure = hold.isUnexpired(this.#clock.now());
    // The backend cannot tell: no other can have had it before its time was over.
    if (was === undefined) return this.#answer(pending, stillSure && wasSure ? "released" : "unknown");
    // It may have run out on the way, after it was given back in time. Its outcome is surely not kept then.
    return this.#answer(pending, stillSure || !wasSure || hold.outcome !== undefined ? "lost" : "unknown");
  }

  #late(nowMs: number): void {
    for (let pending = this.#waiting.take(nowMs); pending !== undefined; pending = this.#waiting.take(nowMs)) {
      if (pending.repeated) this.#answer(pending, "unknown");
      else this.#again(pending);
    }
    this.#lookIfIdle();
  }

  /** The first asking got no answer: its reply was lost, or the request was. */
  #again(pending: Pending): void {
    if (pending.repeated || pending.answered || this.#stopped) return;
    pending.repeated = true;
    const { hold } = pending;
    const { claim, ttlMs, longestTtlMs, trustedUntilMs } = hold;
    const nowMs = this.#clock.now();
    // Trust says nothing about when the store lets go: a `maxHold` ends it earlier, and the last renewal, which went out before
    // the release or with it, may still be on its way to the store.
    const untilMs = nowMs + SILENCE_MS + longestTtlMs + claim.lockDelayMs;
    const outcome = pending.inDoubt ? undefined : hold.outcome;
    let isUnproven = !pending.inDoubt && pending.needsProof && pending.proof === undefined;
    const plain = (): Promise<Released> => this.#ask(pending, outcome);
    const ask = (): Promise<Released> => {
      if (!isUnproven) return plain();
      isUnproven = false;
      // Whatever is known of the lease, nothing of its claim stays behind.
      return within(this.#clock, this.#prove(pending), PROOF_MS).then(plain, plain);
    };
    const asked = releaseUntil(this.#around, claim, untilMs, ask).then((was) => {
      this.#heardAgain(pending, was);
      return was !== undefined;
    });
    this.track(claim, asked);
    const patienceMs = Math.min(PATIENCE_MAX_MS, ttlMs / 3, trustedUntilMs - nowMs);
    // At its very end too, the store gets the time of an answer.
    if (!pending.answered) this.#waiting.set(pending, nowMs + Math.max(PATIENCE_MIN_MS, patienceMs));
  }

  #heardAgain(pending: Pending, was: Released | undefined): void {
    if (was !== undefined && !RELEASED.has(was)) return this.#mistaken(pending, was);
    // Gone though it cannot have run out: no other could have removed it, so that our first release did. (Queued: a late
    // attempt of the same claim arrived after that.)
    // In doubt at the beginning stays in doubt, whatever the wall clock says since.
    // With an outcome the store would have said "held" again: what has become of it is unknown.
    const removedByUs =
      pending.hold.outcome === undefined && was !== undefined && pending.hold.isUnexpired(this.#clock.now());
    const isOurs = !pending.inDoubt && pending.isProven && (was === "held" || removedByUs);
    return this.#answer(pending, isOurs ? "released" : "unknown");
  }

  /** Neither yes nor no, and to ask again would not help: the author of the backend has to know. */
  #mistaken(pending: Pending, was: unknown): void {
    if (pending.answered) return;
    const [backend, lock] = [this.#backend.name, pending.hold.claim.name];
    const mistake = import("../contract/backend-mistake.ts").then(({ mistakenRelease }) => {
      throw mistakenRelease(backend, lock, was);
    });
    this.#answer(pending, mistake);
  }

  #answer(pending: Pending, said: ReleaseResult | Promise<never>): void {
    if (pending.answered) return;
    const result = pending.proof === false && typeof said === "string" ? "lost" : said;
    pending.answered = true;
    this.#waiting.clear(pending);
    pending.resolve(result);
    this.#lookIfIdle();
    if (result !== "lost") return;
    const { lent, state, claim, firstFence, isIdle } = pending.hold;
    // One that was lost before has been reported, and one that was lent to no lease, or to none any more, is no loss.
    if (state === "ending" && lent > 0 && !isIdle)
      publishLost(this.#backend.name, claim.name, firstFence, { kind: "gone" });
  }

  #lookIfIdle(): void {
    if (this.#idle !== undefined && this.#waiting.size + this.#behind.size === 0) this.#idle(true);
  }
}
