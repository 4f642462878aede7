/** What a lease file says, apart from its id, as a text: claims with the same key can use the same file. */
import type { Claim } from "../../contract/backend.ts";
import type { LeaseFacts } from "./records.ts";

/** True only if the file has the claim's share key. Meta is compared by identity: comparing its texts would take as long as making the key. */
export function hasShareKeyOf(facts: LeaseFacts, { mode, limit, ttlMs, holder, meta, lingerMs }: Claim): boolean {
  return (
    facts.meta === meta &&
    facts.ttlMs === ttlMs &&
    facts.mode === mode &&
    facts.limit === limit &&
    facts.lingerMs === lingerMs &&
    facts.holder === holder
  );
}

export function shareKeyOf({ mode, limit, ttlMs, lockDelayMs, minHoldMs, holder, meta, lingerMs = 0 }: Claim): string {
  let shareKey = `${mode} ${limit} ${ttlMs} ${lockDelayMs} ${minHoldMs} ${lingerMs} ${holder}`;
  for (const text in meta) shareKey += `\n${JSON.stringify([text, meta[text]])}`;
  return shareKey;
}
