/** Why a lease was lost: as data for programs, and in words for people. Nothing else words it, and nothing decides on the words. */

/** Why a lease was lost: `kind` says which of these it was. */
export type LossReason =
  /** A process ended it by force. */
  | { readonly kind: "forced"; readonly by: string; readonly reason: string }
  /**
   * Its ttl passed. `renewal`: it is never renewed (`off`), it was tried without success (`failed`), it was tried too late (`late`), or a quorum
   * confirmed it too late (`late-majority`).
   */
  | {
      readonly kind: "expired";
      readonly renewal: "off" | "failed" | "late" | "late-majority";
      /** How many renewals failed. */
      readonly failures?: number | undefined;
      /** How late the end was noticed. */
      readonly lateMs?: number | undefined;
    }
  /** The machine slept past the end of its ttl. */
  | { readonly kind: "slept" }
  /** The machine slept or its wall clock was set, and the store could not be asked. */
  | { readonly kind: "unconfirmed" }
  /** The store did not say that it has kept the outcome of the work. Only from `once()`. */
  | { readonly kind: "unkept" }
  /** The machine slept or its wall clock was set: the store is being asked. Only from `assertHeld()`. */
  | { readonly kind: "in-doubt" }
  | { readonly kind: "max-hold" }
  /** The locks were closed by force. */
  | { readonly kind: "closed" }
  /** It was released. Only from `assertHeld()`. */
  | { readonly kind: "released" }
  /** The store no longer knows it: its time was over, or the store lost its data. */
  | { readonly kind: "gone" }
  /** Its entry in the store was removed by another program, or by hand. */
  | { readonly kind: "removed" }
  /** Its entry in the store was overwritten by another program. */
  | { readonly kind: "overwritten" }
  /** It was over, and a late attempt of the same claim has taken the lock again. */
  | { readonly kind: "retaken" }
  /** The session that held it ended. */
  | { readonly kind: "session-ended" }
  /** This process does not hold it. */
  | { readonly kind: "not-held" }
  /** Too few members of a quorum still hold it. `why`: what one of them said. */
  | { readonly kind: "minority"; readonly gone: number; readonly members: number; readonly why: LossReason }
  /** In the words of a custom backend. */
  | { readonly kind: "other"; readonly text: string };

/** The reason as a sentence without its subject: "its ttl passed and it is not renewed". */
export function describeLoss(loss: LossReason): string {
  const { kind } = loss;
  if (kind === "forced") return `ended by force by ${loss.by}: ${loss.reason}`;
  if (kind === "expired") return describeExpiry(loss);
  if (kind === "minority")
    return `${loss.gone} of ${loss.members} members no longer hold it (${describeLoss(loss.why)})`;
  return kind === "other" ? loss.text : WORDS[kind];
}

const WORDS: Readonly<Record<Exclude<LossReason["kind"], "forced" | "expired" | "minority" | "other">, string>> = {
  slept: "the machine slept past the end of its ttl",
  unconfirmed:
    "the machine slept or its wall clock was set, and the store could not be asked whether it was still held",
  unkept: "the store did not say in time whether it has kept what the work came to, so another may do it again",
  "in-doubt": "it is in doubt until the store confirms it: the machine slept, or its wall clock was set",
  "max-hold": "it was held for its maxHold",
  closed: "the locks were closed",
  released: "it was released",
  gone: "the store no longer knows it: its ttl passed, or the store lost its data",
  removed: "another program removed it from the store",
  overwritten: "another program overwrote it in the store",
  retaken: "its ttl had passed, and a late attempt of the same claim took the lock again",
  "session-ended": "the store ended its session",
  "not-held": "this process does not hold it",
};

/** When the end is noticed this late, the message says so: the event loop was blocked. */
const LATE_MS = 100;

function describeExpiry({ renewal, failures, lateMs = 0 }: LossReason & { readonly kind: "expired" }): string {
  if (renewal === "off") return "its ttl passed and it is not renewed";
  if (renewal === "failed") return `its ttl passed while the store did not confirm it (${failures} renewals failed)`;
  if (renewal === "late-majority") return "its ttl passed before a majority had renewed it";
  const late = lateMs < LATE_MS ? "" : `noticed ${Math.round(lateMs)} ms late: `;
  return `its ttl passed before it could be renewed (${late}the event loop was blocked, the process paused, or the store hung)`;
}
