/** `holdfast doctor --init`: an operator ends the quarantine of members that certainly lost no lease. */
import type { Member } from "../../contract/backend.ts";
import { formatMs } from "../../contract/duration.ts";
import { within } from "../../contract/time-limit.ts";
import { type QuorumOptions, toSettings } from "./options.ts";

/** A member that is down answers nothing, and a client library may wait for it for ever. */
const ANSWER_MS = 5000;

export interface InitResult {
  readonly member: string;
  /** `admitted`: it votes from now on. `durable`: it never abstains anyway. `failed`: see `cause`. */
  readonly result: "admitted" | "durable" | "failed";
  readonly cause?: unknown;
}

/**
 * Ends the quarantine of every member that answers within five seconds. Right after an installation, this saves the first clients from
 * waiting. While a lease may be alive that a member has lost, it breaks mutual exclusion.
 */
export function initMembers(members: readonly Member[], options: QuorumOptions = {}): Promise<readonly InitResult[]> {
  const { clock, terms } = toSettings(options);
  return Promise.all(
    members.map(async (member, at): Promise<InitResult> => {
      const label = options.labels?.[at] ?? `${member.name}#${at + 1}`;
      let isLate = false;
      const admit = async (): Promise<InitResult> => {
        await member.join?.(terms);
        // What is said of this moment may be wrong of a later one: leases may have been lost since.
        if (isLate) throw new Error("it was answered too late");
        if (member.endQuarantine === undefined) return { member: label, result: "durable" };
        await member.endQuarantine();
        return { member: label, result: "admitted" };
      };
      try {
        const result = await within(clock, admit(), ANSWER_MS);
        isLate = true;
        return (
          result ?? { member: label, result: "failed", cause: new Error(`no answer within ${formatMs(ANSWER_MS)}`) }
        );
      } catch (cause) {
        return { member: label, result: "failed", cause };
      }
    }),
  );
}
