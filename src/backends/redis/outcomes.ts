/** Outcomes as the store keeps them: written from what a release leaves behind, and read back. The layout is in wire.ts. */
import {
  type Claim,
  type KeptOutcome,
  type Outcome,
  OUTCOME_BYTES_MAX,
  OUTCOME_KEEP_MAX_MS,
} from "../../contract/claim.ts";
import { clipped, HOLDER_MAX } from "../../contract/foreign.ts";
import { reader } from "./columns.ts";
import { fenceText, isFence, OUTCOME } from "./wire.ts";

const outcome = reader(OUTCOME, "over", "left", "number", "holder", "value");

/** As finish.lua expects it, after the claim's id. */
export function outcomeArgs({ holder }: Claim, { value, keepMs, fence }: Outcome): string[] {
  // JSON leaves no other white space as it is.
  const json = JSON.stringify(clipped(holder, HOLDER_MAX)).replaceAll(" ", String.raw`\u0020`);
  return [String(Math.ceil(keepMs)), fenceText(fence), json, value];
}

/** Reads what is kept. `undefined`: its time is over, or it is none of ours, so it is not believed. */
export function toOutcome(text: unknown, nowMs: number): KeptOutcome | undefined {
  // Longer than any that the scripts accept: its value has fewer UTF-16 units than bytes.
  if (typeof text !== "string" || text.length > OUTCOME_BYTES_MAX + 10 * HOLDER_MAX) return undefined;
  const found = outcome.pattern.exec(text);
  if (found === null) return undefined;
  const { at } = outcome;
  const [fence, value] = [found[at.number] as string, found[at.value] as string];
  const [overMs, leftMs] = [Number(found[at.over]), Number(found[at.left])];
  const remainingMs = overMs - nowMs;
  if (remainingMs <= 0 || overMs < leftMs || overMs - leftMs > OUTCOME_KEEP_MAX_MS) return undefined;
  if (!isFence(Number(fence)) || value.length > OUTCOME_BYTES_MAX) return undefined;
  const ageMs = Math.max(0, nowMs - leftMs);
  return { value, fence: BigInt(fence), holder: toHolder(found[at.holder] as string), ageMs, remainingMs };
}

function toHolder(json: string): string {
  try {
    const holder: unknown = JSON.parse(json);
    return typeof holder === "string" ? clipped(holder, HOLDER_MAX) : "unknown";
  } catch {
    return "unknown";
  }
}
