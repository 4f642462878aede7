/**
 * Renewal: a majority must still hold the ballot, and say so within the old trust.
 *
 * A majority that holds the ballot now proves that nobody held the lock in between: a greater ballot needs a majority
 * too, and a member that granted it would refuse the old one for ever. So missing members are asked again for the same
 * ballot in the background, and a lease is never taken again.
 */
import type { Renewal } from "../../contract/backend.ts";
import { LockBackendError, type MemberVote, quote } from "../../contract/errors.ts";
import type { Settings } from "./options.ts";
import { majorityOf } from "./round.ts";
import type { Seat } from "./member-link.ts";
import type { Standing } from "./claim-state.ts";
import { inWords } from "./votes.ts";

interface Count {
  readonly standing: Standing;
  readonly answers: Map<Seat, Renewal>;
  decided: Renewal | undefined;
}

const NOT_HELD: Renewal = { held: false, reason: "this quorum does not hold it" };

/** Renews all at once, in one request to each member. Resolves when every claim is decided, or its time is up. */
export async function renewAll(
  seats: readonly Seat[],
  settings: Settings,
  standings: readonly (Standing | undefined)[],
): Promise<readonly Renewal[]> {
  const { clock, memberWaitMs } = settings;
  const sentAtMs = clock.now();
  const counts = standings.map((standing): Count | undefined =>
    standing?.held === undefined || standing.ended ? undefined : { standing, answers: new Map(), decided: undefined },
  );
  const live = counts.filter((count) => count !== undefined);
  if (live.length > 0) {
    await new Promise<void>((resolve) => {
      const timer = clock.setTimer(resolve, memberWaitMs, true);
      let open = seats.length;
      for (const seat of seats) {
        void renewAt(seat, live).then((answers) => {
          for (const [index, count] of live.entries()) take(count, seat, answers[index]!, seats, sentAtMs, settings);
          open--;
          if (open > 0 && live.some(({ decided }) => decided === undefined)) return;
          clock.clearTimer(timer);
          resolve();
        });
      }
    });
  }
  return counts.map((count) => (count === undefined ? NOT_HELD : (count.decided ?? unknown(count, seats))));
}

async function renewAt(seat: Seat, counts: readonly Count[]): Promise<readonly Renewal[]> {
  const claims = counts.map(({ standing }) => standing.held!.claim);
  // A member that holds an older ballot of the claim does not hold this lease.
  const ballots = counts.map(({ standing }) => standing.held!.ballot);
  try {
    const answers = await seat.ask((member) => member.renew(claims, ballots));
    if (answers.length === claims.length) return answers;
    throw new Error(`answered ${answers.length} of ${claims.length} renewals`);
  } catch (cause) {
    return claims.map(() => ({ held: "unknown", cause }));
  }
}

function take(
  count: Count,
  seat: Seat,
  answer: Renewal,
  seats: readonly Seat[],
  sentAtMs: number,
  settings: Settings,
): void {
  const { standing, answers } = count;
  answers.set(seat, answer);
  count.decided ??= decide(count, seats.length, sentAtMs, settings.clock.now());
  if (count.decided?.held !== true) return;
  standing.trust(sentAtMs);
  for (const [missing, { held }] of answers) if (held === false) refill(standing, missing, settings);
}

function decide({ standing, answers }: Count, members: number, sentAtMs: number, nowMs: number): Renewal | undefined {
  const majority = majorityOf(members);
  let yes = 0;
  let no = 0;
  let reason = "";
  for (const answer of answers.values()) {
    if (answer.held === true) yes++;
    if (answer.held !== false) continue;
    no++;
    // Broken by force is worth telling; that a member never had it is not.
    if (reason === "" || answer.reason.includes("force")) ({ reason } = answer);
  }
  if (yes >= majority && yes - twins(answers) >= majority) {
    if (nowMs < standing.trustedUntilMs) return { held: true, fromMs: sentAtMs };
    return { held: false, reason: "a majority renewed it only after it could no longer be trusted" };
  }
  if (members - no >= majority) return undefined;
  return { held: false, reason: `${no} of ${members} members no longer hold it (${reason})` };
}

/** How many of those who hold it are servers that another name has led to: each counts once. */
function twins(answers: ReadonlyMap<Seat, Renewal>): number {
  const servers = new Set<string>();
  let named = 0;
  for (const answer of answers.values()) {
    if (answer.held !== true || answer.from === undefined) continue;
    named++;
    servers.add(answer.from);
  }
  return named - servers.size;
}

/** Never after the majority broke: then the standing has ended, or its trust has. */
function refill(standing: Standing, seat: Seat, { clock }: Settings): void {
  const round = standing.held;
  if (round === undefined || standing.ended || clock.now() >= standing.trustedUntilMs) return;
  // Its vote is still under way. One that granted a greater ballot may have been told since that nothing came of it.
  if (round.vote(seat) === undefined || seat.hangs || seat.isDown()) return;
  round.refill(seat);
}

function unknown({ standing, answers }: Count, seats: readonly Seat[]): Renewal {
  const votes = seats.map((seat): MemberVote => {
    const answer = answers.get(seat);
    if (answer === undefined) return { member: seat.label, vote: "slow", detail: "did not answer in time" };
    if (answer.held === true) return { member: seat.label, vote: "granted", detail: "" };
    if (answer.held === false) return { member: seat.label, vote: "low", detail: answer.reason };
    return { member: seat.label, vote: "unreachable", detail: String(answer.cause) };
  });
  const { name } = standing.claim;
  const message = `Lock ${quote(name)} could not be renewed at ${majorityOf(seats.length)} of ${seats.length} members: ${inWords(votes)}.`;
  return { held: "unknown", cause: new LockBackendError("quorum", name, message, { votes }) };
}
