/** Reads what the scripts show of a lock's key: a lease of ours, or the value of another library, of which only the beginning comes. */
import type { Holding } from "../../contract/backend.ts";
import { NEVER_MS, toWho } from "../redis/layouts/notes.ts";

const OURS = /^(ours|kept):(\d{1,19}):(\d{1,15}):(\d{1,15}):(\d{1,15}):(.*)$/su;
const OTHER = /^other:(\d{1,10}):([01]):(.{0,4})$/su;

/** Whose a key is. */
export interface Shown {
  readonly holding: Holding;
  /** False: the value is neither one of ours nor like those of other lock libraries. */
  readonly isLikely: boolean;
}

/** `leftMs`: -1 if the key never expires. `undefined`: it is free. */
export function toShown(name: string, nowMs: number, leftMs: number, text: string): Shown | undefined {
  if (text === "") return undefined;
  const remainingMs = leftMs < 0 ? NEVER_MS : leftMs;
  const rest = { name, mode: "exclusive", limit: 1, remainingMs } as const;
  const [, whose, fence, since, , delay, who] = OURS.exec(text) ?? [];
  if (fence !== undefined) {
    const { holder, meta } = toWho(who ?? "");
    const isOver = leftMs >= 0 && leftMs <= Number(delay);
    const remainder: Holding["remainder"] = whose === "kept" ? "minHold" : isOver ? "lockDelay" : undefined;
    const heldMs = Math.max(0, nowMs - Number(since));
    const holding: Holding = { ...rest, holder, fence: BigInt(fence), heldMs, meta, ...(remainder && { remainder }) };
    return { holding, isLikely: true };
  }
  const [, length = "?", likely, start = ""] = OTHER.exec(text) ?? [];
  const never = leftMs < 0 ? ", never expires" : "";
  const holder = `another library (value ${start}…, ${length} bytes${never})`;
  // It has no fence, and when it began is not known.
  return { holding: { ...rest, holder, fence: 0n, heldMs: 0, meta: {} }, isLikely: likely === "1" };
}
