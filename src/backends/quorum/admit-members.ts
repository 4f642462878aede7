/** `holdfast doctor --init`: an operator ends the quarantine of members that certainly lost no lease. */
import type { Member } from "../../contract/backend.ts";
import { type QuorumOptions, toSettings } from "./options.ts";

export interface InitResult {
  readonly member: string;
  /** `admitted`: it votes from now on. `durable`: it never abstains anyway. `failed`: see `cause`. */
  readonly result: "admitted" | "durable" | "failed";
  readonly cause?: unknown;
}

/**
 * Ends the quarantine of every member that can be reached. Right after an installation, this saves the first clients from
 * waiting. While a lease may be alive that a member has lost, it breaks mutual exclusion.
 */
export function initMembers(members: readonly Member[], options: QuorumOptions = {}): Promise<readonly InitResult[]> {
  const { terms } = toSettings(options);
  return Promise.all(
    members.map(async (member, at): Promise<InitResult> => {
      const label = options.labels?.[at] ?? `${member.name}#${at + 1}`;
      try {
        await member.join?.(terms);
        if (member.endQuarantine === undefined) return { member: label, result: "durable" };
        await member.endQuarantine();
        return { member: label, result: "admitted" };
      } catch (cause) {
        return { member: label, result: "failed", cause };
      }
    }),
  );
}
