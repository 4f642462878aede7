/** Judges what the calls of a program get: leases, losses, refusals, errors, and whether they settle at all. */
import type { GroupLease, ReleaseResult } from "../../core/api.ts";
import type { StoreChange } from "../../backends/memory/index.ts";
import { LockBackendError, LockClosedError, LockLostError, LockTimeoutError } from "../../contract/errors.ts";
import { peek } from "../peek.ts";
import type { Finding, Rule } from "./program.ts";
import { Closings } from "./closings.ts";
import type { Stage } from "./stage.ts";
import type { Call, Tenancy } from "./tenancy.ts";
import { Tries } from "./tries.ts";
import { isPart, Truth } from "./truth.ts";

/** What work throws, and what signals are aborted with. */
export class ProgramError extends Error {
  override readonly name = "ProgramError";
}

/** A message may be this late for reasons of rounding. */
const LATE_MS = 10;
const BURST_MOST = 60;
const RENEWALS_MOST = 60;
const REQUESTS_MOST = 1000;
const REQUESTS_PER_SECOND_MOST = 200;

export class Judge {
  readonly findings: Finding[] = [];
  readonly truth: Truth;
  readonly closings: Closings;
  readonly tries: Tries;
  readonly calls: Call[] = [];
  readonly #stage: Stage;
  readonly #aborted = new Map<AbortSignal, number>();
  /** Those that have been judged once come through the functions around them. */
  readonly #known = new WeakSet();
  readonly #gone = new Map<Tenancy, number>();
  #events = 0;
  readonly #troubled: boolean;

  constructor(stage: Stage) {
    this.#stage = stage;
    const fail = (rule: Rule, message: string): void => this.fail(rule, message);
    this.truth = new Truth(stage, fail);
    this.closings = new Closings(stage, this.truth, () => this.pending, fail);
    this.tries = new Tries(stage, this.truth, this.calls, fail);
    this.#troubled =
      (stage.program.faults ?? []).length > 0 ||
      /"(block|pause|suspend|wall|force)"/.test(JSON.stringify(stage.program));
    stage.onChange = (change) => this.#changed(change);
    stage.onZombie = ({ name }, lock) => this.fail("renewed after its release", `${name}'s lease of "${lock}"`);
  }

  get pending(): readonly Call[] {
    return this.calls.filter(({ endedAt }) => endedAt === undefined);
  }

  fail(rule: Rule, message: string): void {
    this.findings.push({ rule, atMs: this.#stage.nowMs, message });
    this.#stage.say(() => `! ${rule}: ${message}`);
  }

  called(call: Omit<Call, "at" | "turn" | "nowMs" | "hopeless" | "endedAt" | "gotLease">): Call {
    const { turn, nowMs } = this.#stage;
    const hopeless = call.signal?.aborted === true;
    const made: Call = { ...call, at: ++this.#events, turn, nowMs, hopeless, endedAt: undefined, gotLease: false };
    this.calls.push(made);
    if (made.verb === "try") this.tries.called(made);
    return made;
  }

  aborted(signal: AbortSignal): void {
    if (!this.#aborted.has(signal)) this.#aborted.set(signal, this.#stage.turn);
  }

  /** A call brings a lease. */
  handed(call: Call, lease: GroupLease): Tenancy {
    const { client, mode } = call;
    const tenancy: Tenancy = {
      call,
      client,
      lease,
      mode,
      inside: call.inside,
      alone: call.verb === "elect",
      working: false,
      ended: false,
      released: false,
      signal: undefined,
      listensIn: undefined,
      verdict: undefined,
      settled: undefined,
    };
    call.gotLease = true;
    this.#stage.say(
      () => `${client.name}: ${call.verb}() of ${call.names.join()} got ${[...lease.fences.values()].join()}`,
    );
    this.truth.handed(tenancy);
    this.tries.handed();
    this.closings.handed(tenancy);
    const { signal } = call;
    const abortedTurn = signal === undefined ? undefined : this.#aborted.get(signal);
    if (abortedTurn !== undefined && (call.hopeless || abortedTurn < this.#stage.turn))
      this.fail("started with an aborted signal", `${client.name}'s ${call.verb}() of "${call.names.join()}"`);
    return tenancy;
  }

  workBegins(tenancy: Tenancy): void {
    tenancy.working = true;
  }

  /** The work has settled; `resolved` says how. What becomes of the call is decided by what was so at this instant. */
  workEnds(tenancy: Tenancy, resolved: boolean): void {
    this.truth.look();
    tenancy.working = false;
    tenancy.ended = true;
    tenancy.settled = { turn: this.#stage.turn, nowMs: this.#stage.nowMs };
    const { client, lease } = tenancy;
    const states = peek(lease);
    const gone = states.some(({ name, fence, state }) => {
      if (state === "lost") return true;
      // In doubt the release decides, if there is one: the last of several who share a lease asks the store.
      const asks = state === "doubt" && tenancy.mode === "exclusive" && !isPart(tenancy, name, fence);
      return (state === "held" || asks) && this.truth.isGone(name, fence, client);
    });
    const held = states.every(({ state }) => state === "held");
    if (!resolved || tenancy.released || client.forced) tenancy.verdict = undefined;
    else tenancy.verdict = gone ? "lost" : held ? "held" : "unsure";
  }

  /** run() has settled after work that resolved. */
  runEnded(tenancy: Tenancy, error: unknown): void {
    const { client, call } = tenancy;
    const who = `${client.name}'s run() of "${call.names.join()}"`;
    const lost = error instanceof LockLostError;
    if (tenancy.verdict === "lost" && !lost)
      this.fail("resolved though lost", `the loss was not reported to ${who} before its work resolved`);
    // A wall clock that steps ahead in the very instant in which the work settles may come before or after the verdict.
    const stepped = /"(suspend|wall)"/.test(JSON.stringify(this.#stage.program));
    // So may a loop that is blocked in that very turn, for longer than the lease had left.
    const { blockedMs, blockedTurn } = this.#stage;
    const blocked = blockedTurn === tenancy.settled?.turn && blockedMs > tenancy.settled.nowMs;
    if (tenancy.verdict === "held" && lost && !stepped && !blocked && !client.forced && this.#wasOurs(tenancy))
      this.fail("lost though held", `${who} rejects with "${error.reason}"`);
  }

  released(tenancy: Tenancy, result: ReleaseResult, before: boolean): void {
    const { client, call } = tenancy;
    const who = `${client.name}'s release() of "${call.names.join()}"`;
    this.#stage.say(() => `${client.name}: release() of ${call.names.join()}: ${result}`);
    if (result === "lost" && before && !client.forced && this.#wasOurs(tenancy))
      this.fail("lost though held", `${who} says "lost"`);
    const records = [...tenancy.lease.fences].map(([name, fence]) => this.truth.leaseOf(name, fence));
    // After a sleep a yes to the claim does not prove that it was this lease; nor where a question may have come late.
    const isSaid = (id = ""): boolean => client.confirmed.has(id) && client.echoing.get(id) !== false;
    const confirmed = !client.dozed && records.every((record) => isSaid(record?.claim));
    // Given back in time, but the release was on its way when the store let go: which came first is unknown.
    const late = records.some((record) => record?.how === "ran-out") && (this.#stage.program.lagMs ?? 0) > 0;
    const short = call.ttlMs < 15 * (this.#stage.program.lagMs ?? 0);
    if (result === "unknown" && (confirmed || !(this.#troubled || short || late)))
      this.fail("unknown without a reason", `${who} says "unknown"${confirmed ? ", but the store said yes" : ""}`);
  }

  /** The call is over, well or not. */
  settled(call: Call, error?: unknown): void {
    call.endedAt = ++this.#events;
    if (error !== undefined) this.#judgeError(call, error);
  }

  /** All is quiet. */
  look(): void {
    this.truth.look();
    this.tries.look();
    this.closings.look();
    for (const tenancy of this.truth.tenancies) {
      this.#lookAtSignal(tenancy);
      this.#lookAtState(tenancy);
    }
    for (const client of this.#stage.clients) {
      if (client.burst > BURST_MOST) this.fail("too many requests", `${client.name}: ${client.burst} in one instant`);
      else if (client.requests > REQUESTS_MOST + (this.#stage.nowMs / 1000) * REQUESTS_PER_SECOND_MOST)
        this.fail("too many requests", `${client.name}: ${client.requests}`);
      client.burst = 0;
      const { renewals } = client;
      while ((renewals[0] ?? Infinity) < this.#stage.nowMs - 1000) renewals.shift();
      if (renewals.length > RENEWALS_MOST)
        this.fail("too many requests", `${client.name}: ${renewals.length} renewals within a second`);
    }
  }

  /** Nothing goes wrong in this program: then nothing is lost. */
  #lookAtState({ client, call, lease, ended }: Tenancy): void {
    if (this.#troubled || ended || !call.endless || client.closing !== undefined || this.findings.length > 0) return;
    // A ttl must be long against the lag, or renewals come too late.
    if (this.calls.some(({ ttlMs }) => ttlMs < 15 * (this.#stage.program.lagMs ?? 0))) return;
    if (peek(lease).some(({ state }) => state === "lost") && !isInsideMortal(call))
      this.fail("lost though held", `${client.name}'s ${call.verb}() of "${call.names.join()}": nothing went wrong`);
  }

  #changed(change: StoreChange): void {
    this.#events++;
    this.truth.changed(change);
    this.closings.changed(change);
    this.tries.changed(change);
  }

  /** The store kept the lease until it was released, or still keeps it. */
  #wasOurs(tenancy: Tenancy): boolean {
    for (const [name, fence] of tenancy.lease.fences) {
      const how = this.truth.leaseOf(name, fence)?.how;
      if (how === "ran-out" || how === "forced") return false;
      if (how === undefined && this.truth.isGone(name, fence, tenancy.client)) return false;
    }
    return true;
  }

  /** The signal must have aborted at the end of the lease, as soon as this process could know of it. */
  #lookAtSignal(tenancy: Tenancy): void {
    const { client, lease, signal, call } = tenancy;
    if (signal === undefined || signal.aborted || tenancy.ended || !client.process.running) return;
    const { nowMs, blockedMs } = this.#stage;
    if (client.closing !== undefined)
      this.fail(
        "signal too late",
        `${client.name}: close() was called, and the signal of "${lease.name}" says nothing`,
      );
    for (const [name, fence] of lease.fences) {
      if (!this.truth.isGone(name, fence, client)) continue;
      const sinceMs = Math.max(this.#goneMs(tenancy), client.process.stoodStillMs, blockedMs);
      const slackMs = client.dozed ? this.#longestTtlMs(call, name) / 3 + 2000 : 0;
      if (nowMs - sinceMs > slackMs + LATE_MS + 2 * (this.#stage.program.lagMs ?? 0))
        this.fail(
          "signal too late",
          `${client.name}: the lease of "${name}" (fence ${fence}) is gone, and its signal has not aborted`,
        );
    }
  }

  /** A lease that was extended is renewed after a third of what it was extended by. */
  #longestTtlMs({ client, ttlMs }: Call, name: string): number {
    const extended = this.calls.filter(
      (other) => other.verb === "extend" && other.client === client && other.names.includes(name),
    );
    return Math.max(ttlMs, ...extended.map((other) => other.ttlMs));
  }

  /** When it was first seen that the lease is gone. */
  #goneMs(tenancy: Tenancy): number {
    const seenMs = this.#gone.get(tenancy) ?? this.#stage.nowMs;
    this.#gone.set(tenancy, seenMs);
    return seenMs;
  }

  #judgeError(call: Call, error: unknown): void {
    this.#stage.say(
      () => `${call.client.name}: ${call.verb}() of ${call.names.join()} fails: ${String(error).slice(0, 100)}`,
    );
    if (typeof error !== "object" || error === null || this.#known.has(error)) return;
    this.#known.add(error);
    const expected =
      error instanceof ProgramError ||
      error instanceof LockTimeoutError ||
      error instanceof LockLostError ||
      error instanceof LockBackendError ||
      (error instanceof LockClosedError && call.client.closing !== undefined) ||
      (error instanceof TypeError && this.#wouldWaitForItself(call));
    // A store that answers can be asked: also by those who do not wait.
    if (error instanceof LockBackendError && !this.#troubled)
      this.fail("unexpected error", `${call.client.name}'s ${call.verb}() of "${call.names.join()}": ${error.message}`);
    const passing = error instanceof LockTimeoutError || (error instanceof LockBackendError && !error.fatal);
    if (passing && this.#stage.nowMs - call.nowMs < call.waitMs - 1)
      this.fail(
        "gave up too early",
        `${call.client.name}'s ${call.verb}() of "${call.names.join()}": ${error.message}`,
      );
    if (!expected)
      this.fail(
        "unexpected error",
        `${call.client.name}'s ${call.verb}(): ${(error as Error).name}: ${(error as Error).message}`,
      );
  }

  /** A writer inside of a reader. */
  #wouldWaitForItself(call: Call): boolean {
    for (let around = call.inside; around !== undefined; around = around.inside) {
      if (around.client === call.client && around.mode === "shared" && call.mode === "exclusive") return true;
    }
    return false;
  }
}

/** It has a part in a lease that ends by itself. */
function isInsideMortal({ inside, names }: Call): boolean {
  for (let around = inside; around !== undefined; around = around.inside) {
    if (!around.call.endless && names.some((name) => around.lease.fences.has(name))) return true;
  }
  return false;
}
