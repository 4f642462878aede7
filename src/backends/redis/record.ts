/** Reads claims back from the store. How they are written is in terms.ts; the layout is told in lua/_lock.lua. */
import type { Forced, Holding, Meta, Mode, Waiting } from "../../contract/backend.ts";
import { clipped, HOLDER_MAX, META_BYTES_MAX, REASON_MAX } from "../../contract/foreign.ts";
import { isFence } from "./fences.ts";

// "<end> <since> <fence or place> <flag><mode> <keep> <more> <idle> <limit> <ttl> <lockDelay> <ticket> <minHold> <inbox> <json>"
const RECORD = /^(\d{13}) (\d{13}) (\d{16}) [.!vw]([xs]) (?:\d{1,16} ){3}(\d{1,16}) (?:\d{1,16} ){4}\S+ (.*)$/su;
const FORCED = /^(\d{13,16}) \S+ (.*)$/su;

interface Parsed {
  readonly endMs: number;
  readonly sinceMs: number;
  readonly number: string;
  readonly mode: Mode;
  readonly limit: number;
  readonly holder: string;
  readonly meta: Meta;
}

/** No more of a record is read. Its holder is unknown then, but it is still shown: somebody has the lock. */
const RECORD_MAX = 1_048_576;

/** Reads a holder's record. `undefined`: it is not one, so that it is not believed. */
export function toHolding(name: string, record: string, nowMs: number): Holding | undefined {
  const parsed = parse(record);
  if (parsed === undefined || !isFence(Number(parsed.number))) return undefined;
  const { mode, limit, holder, meta } = parsed;
  return {
    name,
    mode,
    limit,
    holder,
    fence: BigInt(parsed.number),
    heldMs: Math.max(0, nowMs - parsed.sinceMs),
    remainingMs: Math.max(0, parsed.endMs - nowMs),
    meta,
  };
}

/** Reads a waiter's record; its position is not in it, but its place in the line is. */
export function toWaiting(name: string, record: string, nowMs: number): (Waiting & { place: number }) | undefined {
  const parsed = parse(record);
  if (parsed === undefined || parsed.endMs <= nowMs) return undefined;
  const { mode, limit, holder, meta } = parsed;
  const waitingMs = Math.max(0, nowMs - parsed.sinceMs);
  return { name, mode, limit, holder, waitingMs, position: 0, meta, place: Number(parsed.number) };
}

export function toForced(name: string, fence: string, record: string, nowMs: number): Forced | undefined {
  const [, at, json] = readForce(record) ?? [];
  if (at === undefined || json === undefined || !/^\d{1,16}$/u.test(fence) || !isFence(Number(fence))) return undefined;
  return { name, fence: BigInt(fence), agoMs: Math.max(0, nowMs - Number(at)), ...toForce(json) };
}

function readForce(record: string): RegExpExecArray | null {
  return FORCED.exec(record.slice(0, RECORD_MAX));
}

/** Who ended a lease by force, and why. */
function toForce(json: string): { by: string; reason: string } {
  const value = parseJson(json);
  const { by, reason } = (typeof value === "object" && value !== null ? value : {}) as Record<string, unknown>;
  return {
    by: typeof by === "string" ? clipped(by, HOLDER_MAX) : "somebody",
    reason: typeof reason === "string" ? clipped(reason, REASON_MAX) : "no reason given",
  };
}

/** Why a lease was lost, when force ended it; `undefined` when this is no record of force. */
export function forcedReason(record: string): string | undefined {
  const json = readForce(record)?.[2];
  if (json === undefined) return undefined;
  const { by, reason } = toForce(json);
  return `${by} ended it by force: ${reason}`;
}

function parse(record: string): Parsed | undefined {
  const found = RECORD.exec(record.length > RECORD_MAX ? record.slice(0, RECORD_MAX) : record);
  if (found === null) return undefined;
  const who = parseJson(found[6] as string);
  const [holder, meta]: unknown[] = Array.isArray(who) ? who : [];
  return {
    endMs: Number(found[1]),
    sinceMs: Number(found[2]),
    number: found[3] as string,
    mode: found[4] === "s" ? "shared" : "exclusive",
    limit: Number(found[5]),
    holder: typeof holder === "string" ? clipped(holder, HOLDER_MAX) : "unknown",
    meta: toMeta(meta),
  };
}

/** What is too long is not shown at all: half of a meta would look like a whole one. */
function toMeta(value: unknown): Meta {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return {};
  const all = Object.entries(value);
  if (all.length === 0) return {};
  const entries = all.filter((entry): entry is [string, string] => typeof entry[1] === "string");
  const length = entries.reduce((sum, [field, text]) => sum + field.length + text.length, 0);
  return length > META_BYTES_MAX ? {} : Object.fromEntries(entries);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
