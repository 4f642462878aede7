/**
 * Renewal: a majority must still hold the ballot, and say so within the old trust.
 *
 * A majority that holds the ballot now proves that no other claim held the lock in between: a greater ballot needs a majority
 * too, and a member that granted it refuses the old one from then on. So missing members are asked again for the same ballot
 * in the background, and a lease is never acquired again.
 */
import type { Claim, Renewal } from "../../contract/backend.ts";
import { LockBackendError, type MemberVote, quote } from "../../contract/errors.ts";
import { readLoss } from "../../contract/answer.ts";
import { describeLoss, type LossReason } from "../../contract/loss.ts";
import { firstFence } from "./ballot.ts";
import type { ClaimState } from "./claim-state.ts";
import { inWords } from "./errors.ts";
import type { MemberLink } from "./member-link.ts";
import { type Settings, unfitClaim } from "./options.ts";
import { majorityOf } from "./votes.ts";

/** A lease, and for what it is to be renewed. */
interface Ask {
  readonly state: ClaimState;
  readonly claim: Claim;
}

interface Count extends Ask {
  /** As the members know it. */
  readonly known: Claim;
  readonly answers: Map<MemberLink, Renewal>;
  decided: Renewal | undefined;
}

const NOT_HELD: Renewal = { held: false, reason: { kind: "not-held" } };

/**
 * Renews each claim for its own ttl, at all members. A claim for longer than the group may hold is not renewed, and keeps what it
 * has. `find`: the state of a claim, if this process knows it or can learn it.
 */
export async function renewClaims(
  links: readonly MemberLink[],
  settings: Settings,
  claims: readonly Claim[],
  fences: readonly bigint[] | undefined,
  find: (claim: Claim) => ClaimState | undefined | Promise<ClaimState | undefined>,
): Promise<readonly { readonly state: ClaimState | undefined; readonly renewal: Renewal }[]> {
  const refused = claims.map((claim) => unfitClaim(claim, settings.maxTtlMs));
  const asks: (Ask | undefined)[] = [];
  for (const [at, claim] of claims.entries()) {
    const found = refused[at] === undefined ? find(claim) : undefined;
    const state = found instanceof Promise ? await found : found;
    const ballot = state?.held?.ballot;
    const isIt = fences === undefined || (ballot !== undefined && firstFence(ballot) === fences[at]);
    asks.push(state !== undefined && isIt ? { state, claim } : undefined);
  }
  const renewals = await renewAll(links, settings, asks);
  return renewals.map((renewal, at) => {
    const cause = refused[at];
    return { state: asks[at]?.state, renewal: cause === undefined ? renewal : { held: "unknown", cause } };
  });
}

/** Renews all at once, in one request to each member. Resolves when every claim is decided, or its time is up. */
export async function renewAll(
  links: readonly MemberLink[],
  settings: Settings,
  asks: readonly (Ask | undefined)[],
): Promise<readonly Renewal[]> {
  const { clock, memberWaitMs } = settings;
  const sentAtMs = clock.now();
  const counts = asks.map((ask): Count | undefined => {
    const round = ask?.state.held;
    if (ask === undefined || round === undefined || ask.state.ended) return undefined;
    // What is for people is written once, not again with each look at the members.
    ask.state.claim = ask.claim.changed === true ? { ...ask.claim, changed: false } : ask.claim;
    return { ...ask, known: round.renewed(ask.claim), answers: new Map(), decided: undefined };
  });
  const live = counts.filter((count) => count !== undefined);
  if (live.length > 0) {
    await new Promise<void>((resolve) => {
      const timer = clock.setTimer(resolve, memberWaitMs, true);
      let open = links.length;
      for (const link of links) {
        void renewAt(link, live).then((answers) => {
          for (const [index, count] of live.entries()) take(count, link, answers[index]!, links, sentAtMs, settings);
          open--;
          if (open > 0 && live.some(({ decided }) => decided === undefined)) return;
          clock.clearTimer(timer);
          resolve();
        });
      }
    });
  }
  return counts.map((count) => (count === undefined ? NOT_HELD : (count.decided ?? unknown(count, links))));
}

async function renewAt(link: MemberLink, counts: readonly Count[]): Promise<readonly Renewal[]> {
  const claims = counts.map(({ known }) => known);
  // A member that holds an older ballot of the claim does not hold this lease.
  const ballots = counts.map(({ state }) => state.held!.ballot);
  try {
    const answers = await link.ask((member) => member.renew(claims, ballots));
    if (answers.length === claims.length) return answers;
    throw new Error(`answered ${answers.length} of ${claims.length} renewals`);
  } catch (cause) {
    return claims.map(() => ({ held: "unknown", cause }));
  }
}

function take(
  count: Count,
  link: MemberLink,
  answer: Renewal,
  links: readonly MemberLink[],
  sentAtMs: number,
  settings: Settings,
): void {
  const { state, claim, answers } = count;
  answers.set(link, answer);
  count.decided ??= decide(count, links.length, sentAtMs, settings.clock.now());
  if (count.decided?.held !== true) return;
  state.trust(sentAtMs, claim.ttlMs);
  for (const [missing, { held }] of answers) if (held === false) askAgain(state, missing, settings);
}

function decide({ state, answers }: Count, members: number, sentAtMs: number, nowMs: number): Renewal | undefined {
  const majority = majorityOf(members);
  let yes = 0;
  let no = 0;
  let why: LossReason | undefined;
  for (const answer of answers.values()) {
    if (answer.held === true) yes++;
    if (answer.held !== false) continue;
    no++;
    // A force release is worth reporting; that a member never had it is not.
    const loss = readLoss(answer.reason);
    if (why === undefined || loss.kind === "forced") why = loss;
  }
  if (yes >= majority && yes - twins(answers) >= majority) {
    if (nowMs < state.trustedUntilMs) return { held: true, fromMs: sentAtMs };
    return { held: false, reason: { kind: "expired", renewal: "late-majority" } };
  }
  if (why === undefined || members - no >= majority) return undefined;
  return { held: false, reason: { kind: "minority", gone: no, members, why } };
}

/** How many of the members that hold it are a server that another name leads to: each server counts once. */
function twins(answers: ReadonlyMap<MemberLink, Renewal>): number {
  const servers = new Set<string>();
  let named = 0;
  for (const answer of answers.values()) {
    if (answer.held !== true || answer.from === undefined) continue;
    named++;
    servers.add(answer.from);
  }
  return named - servers.size;
}

/** Never after the majority was lost: then the claim has ended, or its trust has. */
function askAgain(state: ClaimState, link: MemberLink, { clock }: Settings): void {
  const round = state.held;
  if (round === undefined || state.ended || clock.now() >= state.trustedUntilMs) return;
  // Its vote is still under way. A member that granted a greater ballot may have got its withdrawal since.
  if (round.vote(link) === undefined || link.hangs || link.isDown()) return;
  round.askAgain(link);
}

function unknown({ state, answers }: Count, links: readonly MemberLink[]): Renewal {
  const votes = links.map((link): MemberVote => {
    const answer = answers.get(link);
    if (answer === undefined) return { member: link.label, vote: "slow", detail: "did not answer in time" };
    if (answer.held === true) return { member: link.label, vote: "granted", detail: "" };
    if (answer.held === false)
      return { member: link.label, vote: "low", detail: describeLoss(readLoss(answer.reason)) };
    return { member: link.label, vote: "unreachable", detail: String(answer.cause) };
  });
  const { name } = state.claim;
  const message = `Lock ${quote(name)} could not be renewed at ${majorityOf(links.length)} of ${links.length} members: ${inWords(votes)}.`;
  return { held: "unknown", cause: new LockBackendError("quorum", name, message, { votes }) };
}
