/** The judge: reads what happened in a play, and holds it against the oracles and against what the scenario promises. */
import { checkHistory } from "../testing/history/check.ts";
import type { LabEvent, Register } from "./events.ts";
import { type Belief, beliefsOf, toHistory } from "./history.ts";
import type { PlayResult, Surprise } from "./play-types.ts";
import type { Outcome } from "./scenarios/scenario.ts";

export interface RegisterFacts {
  readonly accepted: number;
  readonly refused: number;
  /** Accepted writes that built on a value that another client had overwritten since. */
  readonly stale: number;
}

export interface Facts {
  readonly beliefs: readonly Belief[];
  /** O1: how long two clients believed at once; 0 is right. */
  readonly overlapMs: number;
  /** O2: the protected thing, without and with a guard. */
  readonly registers: Readonly<Record<Register, RegisterFacts>>;
  /** O3: releases that ended another client's lock. */
  readonly foreignReleases: number;
  /** O4: leases that the store had given away while their holder still trusted them. */
  readonly early: number;
  /** O4: lost leases that were never reported to their holder. */
  readonly unreported: number;
  /** O6 */
  readonly leaks: readonly string[];
  /** O5, O7, O8: steps that ended against what was promised. */
  readonly surprises: readonly Surprise[];
}

export interface Verdict {
  readonly result: PlayResult;
  readonly facts: Facts;
  /** What went against the promise; empty is right. */
  readonly against: readonly string[];
}

/** Judges a play of Holdfast itself by the scenario's promise for its backend. */
export function judge(result: PlayResult): Verdict {
  const facts = factsOf(result);
  const promised = result.scenario.outcomes[result.stage.backend];
  if (promised === undefined) throw new TypeError(`${result.scenario.id} promises nothing on ${result.stage.backend}`);
  const objected = checkHistory(toHistory(result.events))
    // Judged against the promise below.
    .filter(({ oracle }) => oracle !== "O1 exclusion" || promised.exclusion === "kept")
    .map(({ oracle, message }) => `${oracle}: ${message}`);
  return {
    result,
    facts,
    against: [...againstOutcome(facts, promised), ...againstOracles(facts, promised), ...objected],
  };
}

function againstOutcome(facts: Facts, promised: Outcome): readonly string[] {
  const { plain, guarded } = facts.registers;
  const against: string[] = [];
  const exclusion = facts.overlapMs > 0 ? "broken" : "kept";
  if (exclusion !== promised.exclusion)
    against.push(`O1: exclusion was ${exclusion}, and ${promised.exclusion} was promised`);
  const harm = plain.stale > 0 ? "stale write" : "none";
  if (harm !== promised.harm) against.push(`without a guard: ${harm}, and ${promised.harm} was promised`);
  if (promised.harm === "stale write" && guarded.refused === 0) against.push("O2: the guard refused nothing");
  if (promised.harm === "none" && guarded.refused > 0)
    against.push(`O2: the guard refused ${guarded.refused} good writes`);
  return against;
}

function againstOracles(facts: Facts, promised: Outcome): readonly string[] {
  const against = facts.surprises.map(({ text }) => text);
  const { guarded } = facts.registers;
  if (guarded.stale > 0) against.push(`O2: the guard let ${guarded.stale} stale writes through`);
  if (facts.foreignReleases > 0) against.push("O3: a release ended another client's lock");
  if (facts.early > 0 && promised.exclusion === "kept")
    against.push("O4: the store gave the lock away before its holder stopped trusting");
  if (facts.unreported > 0) against.push("O4: a lost lease was never reported to its holder");
  if (facts.leaks.length > 0) against.push(`O6: left behind: ${facts.leaks.join(", ")}`);
  return against;
}

/** The facts alone, whatever was promised: also for other libraries. */
export function factsOf(result: PlayResult): Facts {
  const beliefs = beliefsOf(result.events, result.endMs);
  return {
    beliefs,
    overlapMs: overlapOf(awake(beliefs, result.events, result.endMs)),
    registers: { plain: registerFacts(result.events, "plain"), guarded: registerFacts(result.events, "guarded") },
    foreignReleases: foreignReleases(result, beliefs),
    early: beliefs.filter((belief) => givenAway(belief, result)).length,
    unreported: beliefs.filter((belief) => isUnreported(belief, result)).length,
    leaks: result.leaks,
    surprises: result.surprises,
  };
}

interface Span {
  readonly client: string;
  readonly fromMs: number;
  readonly untilMs: number;
}

/** A stopped process believes nothing and does nothing: what it does when it wakes up is what counts. */
export function awake(beliefs: readonly Belief[], events: readonly LabEvent[], endMs: number): readonly Span[] {
  return beliefs.flatMap(({ client, fromMs, untilMs }) => {
    const spans: Span[] = [];
    let startMs: number | undefined = fromMs;
    for (const event of events) {
      if (event.lane !== client || event.kind !== "fault" || event.atMs < fromMs || event.atMs > untilMs) continue;
      if ((event.sign === "pause" || event.sign === "block") && startMs !== undefined) {
        spans.push({ client, fromMs: startMs, untilMs: event.atMs });
        startMs = undefined;
      } else if (event.sign === "resume") startMs ??= event.atMs;
    }
    if (startMs !== undefined) spans.push({ client, fromMs: startMs, untilMs: Math.min(untilMs, endMs) });
    return spans;
  });
}

/** The total length of what two clients believed at once. */
function overlapOf(spans: readonly Span[]): number {
  let totalMs = 0;
  for (const [i, a] of spans.entries()) {
    for (const b of spans.slice(i + 1)) {
      if (a.client !== b.client) totalMs += Math.max(0, Math.min(a.untilMs, b.untilMs) - Math.max(a.fromMs, b.fromMs));
    }
  }
  return totalMs;
}

function registerFacts(events: readonly LabEvent[], register: Register): RegisterFacts {
  let value = 0;
  const facts = { accepted: 0, refused: 0, stale: 0 };
  for (const event of events) {
    if (event.kind !== "write" || event.register !== register) continue;
    if (!event.accepted) facts.refused++;
    else {
      facts.accepted++;
      if (event.read !== value) facts.stale++;
      ({ value } = event);
    }
  }
  return facts;
}

type Truth = LabEvent & { readonly kind: "truth" };

function truthsOf(events: readonly LabEvent[], lane: string): readonly Truth[] {
  return events.filter((event): event is Truth => event.kind === "truth" && event.lane === lane);
}

/** A lock vanished from the store under a client that believed in it, while another client released. */
function foreignReleases({ events, stage }: PlayResult, beliefs: readonly Belief[]): number {
  const [lane, ...others] = stage.observers;
  if (lane === undefined || others.length > 0) return 0;
  const truths = truthsOf(events, lane);
  return beliefs.filter(({ client, fromMs, untilMs }) =>
    truths.some((gone, i) => {
      const there = truths[i - 1];
      if (there === undefined || !there.holders.includes(client) || gone.holders.includes(client)) return false;
      if (there.atMs < fromMs || gone.atMs >= untilMs || gone.away === true) return false;
      return events.some(
        ({ kind, lane: who, atMs }) => kind === "releasing" && who !== client && atMs > there.atMs && atMs < gone.atMs,
      );
    }),
  ).length;
}

/** Whether the store named another holder while this client still trusted its lease. A quorum's members name the claim they voted for, which may not have won. */
function givenAway(belief: Belief, { events, stage }: PlayResult): boolean {
  const [lane, ...others] = stage.observers;
  if (lane === undefined || others.length > 0) return false;
  return truthsOf(events, lane).some(
    ({ atMs, holders }) =>
      atMs > belief.fromMs && atMs < belief.untilMs && holders.length > 0 && !holders.includes(belief.client),
  );
}

function isUnreported(belief: Belief, { events, endMs }: PlayResult): boolean {
  if (belief.end !== "trust ended") return false;
  const asleep = events.findLast(({ kind, lane }) => kind === "fault" && lane === belief.client);
  if (asleep?.kind === "fault" && (asleep.sign === "kill" || asleep.sign === "pause")) return false;
  // A release that came first says it in its result.
  return !events.some(
    ({ kind, lane, atMs }) =>
      lane === belief.client && (kind === "lost" || kind === "releasing") && atMs >= belief.fromMs && atMs <= endMs,
  );
}
