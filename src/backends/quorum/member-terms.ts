/**
 * What the group asks of its members. A member keeps the longest quarantine that any process asked for; a process that learns
 * of a longer one than its own asks for that from then on, so it also holds at a member that has lost its data. Different
 * quarantines are an error of configuration: one warning.
 */
import type { MemberTerms } from "../../contract/backend.ts";
import { formatMs } from "../../contract/duration.ts";
import { warn } from "../../contract/warning.ts";

export class GroupTerms implements MemberTerms {
  readonly allowEviction: boolean;
  /** The longest that is known. */
  quarantineMs: number;
  readonly #ownMs: number;
  #warned = false;

  constructor({ quarantineMs, allowEviction }: MemberTerms) {
    this.quarantineMs = quarantineMs;
    this.#ownMs = quarantineMs;
    this.allowEviction = allowEviction;
  }

  /** What a member had been asked for before. True: longer than what is known, and known from now on. */
  learn(member: string, beforeMs: number | undefined): boolean {
    if (beforeMs === undefined) return false;
    if (beforeMs !== this.#ownMs) this.#warn(member, beforeMs);
    if (beforeMs <= this.quarantineMs) return false;
    this.quarantineMs = beforeMs;
    return true;
  }

  #warn(member: string, beforeMs: number): void {
    if (this.#warned) return;
    this.#warned = true;
    warn(
      "HOLDFAST_MAX_TTL",
      `The quorum's member ${member} is also used with ${inWords(beforeMs)}, and by this process with ${inWords(this.#ownMs)}. All processes must use a quorum with the same \`maxTtl\` and \`durable\`. Until they do, the longest quarantine holds for all; \`holdfast doctor --init\` ends that once it is no longer needed.`,
    );
  }
}

function inWords(quarantineMs: number): string {
  return quarantineMs === 0 ? "no quarantine (durable)" : `a quarantine of ${formatMs(quarantineMs)}`;
}
