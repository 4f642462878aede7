/** Asks all members one question, and counts the answers of a majority. */
import type { Timer } from "../../contract/clock.ts";
import { LockBackendError, type MemberVote } from "../../contract/errors.ts";
import { inWords } from "./errors.ts";
import type { MemberLink } from "./member-link.ts";
import type { Settings } from "./options.ts";
import { majorityOf } from "./votes.ts";

interface Answer<T> {
  readonly link: MemberLink;
  readonly value: T;
}

/** Once a majority has answered, the others get this long, and twice the time that the majority took. */
const GRACE_MS = 20;

/** The answers of a majority, and of members that are not much slower. Rejects where fewer than a majority answered in time. */
export async function askMembers<T>(
  links: readonly MemberLink[],
  { clock, memberWaitMs }: Settings,
  lock: string,
  question: (link: MemberLink) => Promise<T>,
): Promise<readonly Answer<T>[]> {
  const majority = majorityOf(links.length);
  const sentAtMs = clock.now();
  const answers: Answer<T>[] = [];
  const silent = new Map<MemberLink, MemberVote>();
  let timer: Timer;
  await new Promise<void>((resolve) => {
    timer = clock.setTimer(resolve, memberWaitMs, true);
    let open = links.length;
    const settled = (): void => {
      open--;
      if (open === 0) return resolve();
      if (answers.length !== majority) return;
      clock.clearTimer(timer);
      timer = clock.setTimer(resolve, Math.min(memberWaitMs, GRACE_MS + 2 * (clock.now() - sentAtMs)), true);
    };
    for (const link of links) {
      silent.set(link, { member: link.label, vote: "slow", detail: `did not answer in ${memberWaitMs} ms` });
      question(link).then(
        (value) => {
          answers.push({ link, value });
          silent.delete(link);
          settled();
        },
        (cause: unknown) => {
          const detail = cause instanceof Error ? cause.message : String(cause);
          silent.set(link, { member: link.label, vote: "unreachable", detail });
          settled();
        },
      );
    }
  });
  clock.clearTimer(timer);
  // Copied: later answers must not change what was counted.
  if (answers.length >= majority) return [...answers];
  const votes = [...silent.values()];
  const message = `Needs the answers of ${majority} of ${links.length} members, and got ${answers.length}: ${inWords(votes)}.`;
  throw new LockBackendError("quorum", lock, message, { votes });
}
