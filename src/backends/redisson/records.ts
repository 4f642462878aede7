/** Reads what the scripts show of a lock: leases of ours, and holders in Java. */
import type { Holding } from "../../contract/backend.ts";
import { clipped, HOLDER_MAX } from "../../contract/foreign.ts";
import { NEVER_MS, toWho } from "../redis/layouts/notes.ts";

const RECORD = /^(\d{1,19}):(\d{1,15}):(\d{1,15}):(\d{1,15}):(.*)$/su;
const JAVA = /^([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}):(-?\d{1,19})(?::write)?$/u;
const TOKEN = /^\d{1,18}$/u;
const MODES: readonly unknown[] = ["free", "lock", "read", "write", "other"];

export interface Shown {
  readonly held: readonly Holding[];
  readonly nowMs: number;
  /** Until the key expires; -1: never, -2: it is free. */
  readonly leftMs: number;
  /** No process has it; but there may be a time for which it is left to others. */
  readonly isFree: boolean;
  /** False: there is nothing that looks like a lock of Redisson. */
  readonly isLikely: boolean;
}

/** `undefined`: the reply is none. */
export function toShown(name: string, reply: unknown): Shown | undefined {
  const [nowMs, leftMs, token, mode, ...rest]: unknown[] = Array.isArray(reply) ? reply : [];
  if (typeof nowMs !== "number" || typeof leftMs !== "number" || !MODES.includes(mode)) return undefined;
  const held: Holding[] = [];
  let isLikely = mode === "read" || mode === "write";
  for (let at = 0; at + 2 < rest.length; at += 3) {
    const [whose, left, text] = rest.slice(at, at + 3);
    if (typeof left !== "number" || typeof text !== "string") return undefined;
    const around = {
      name,
      mode: mode === "read" ? "shared" : "exclusive",
      limit: 1,
      remainingMs: left < 0 ? NEVER_MS : left,
    } as const;
    const ours = whose === "other" ? undefined : toOurs(around, whose === "kept", left, nowMs, text);
    isLikely ||= ours !== undefined || JAVA.test(text);
    held.push(ours ?? { ...around, ...toTheirs(text, left), fence: tokenOf(token), heldMs: 0, meta: {} });
  }
  return { held, nowMs, leftMs, isFree: mode === "free", isLikely };
}

type Around = Pick<Holding, "name" | "mode" | "limit" | "remainingMs">;

function toOurs(around: Around, isKept: boolean, leftMs: number, nowMs: number, text: string): Holding | undefined {
  const [, fence, since, , delay, who = ""] = RECORD.exec(text) ?? [];
  if (fence === undefined) return undefined;
  const isOver = leftMs >= 0 && leftMs <= Number(delay);
  const remainder: Holding["remainder"] = isKept ? "minHold" : isOver ? "lockDelay" : undefined;
  const heldMs = Math.max(0, nowMs - Number(since));
  return { ...around, ...toWho(who), fence: BigInt(fence), heldMs, ...(remainder && { remainder }) };
}

/** Since when it holds is not known. */
function toTheirs(text: string, leftMs: number): { readonly holder: string } {
  const never = leftMs < 0 ? ", never expires" : "";
  const [, client, thread] = JAVA.exec(text) ?? [];
  if (client === undefined) return { holder: clipped(`another library (${text}${never})`, HOLDER_MAX) };
  return { holder: `Redisson ${client}, thread ${thread}${never}` };
}

/** The token of a fenced lock is that of its holder. Other locks have none. */
function tokenOf(token: unknown): bigint {
  return typeof token === "string" && TOKEN.test(token) ? BigInt(token) : 0n;
}
