/** Reads claims back from the store. How they are written is in terms.ts; the layout is told in lua/_lock.lua. */
import type { Forced, Holding, Meta, Mode, Waiting } from "../backend.ts";

// "<end> <since> <fence or place> <flag><mode> <keep> <more> <idle> <limit> <ttl> <lockDelay> <ticket> <minHold> <inbox> <json>"
const RECORD = /^(\d{13}) (\d{13}) (\d{1,20}) [.!vw]([xs]) (?:\d{1,16} ){3}(\d{1,16}) (?:\d{1,16} ){4}\S+ (.*)$/su;
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

/** Reads a holder's record. `undefined`: it is not one, so that it is not believed. */
export function toHolding(name: string, record: string, nowMs: number): Holding | undefined {
  const parsed = parse(record);
  if (parsed === undefined) return undefined;
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
  const [, at, json] = FORCED.exec(record) ?? [];
  if (at === undefined || json === undefined || !/^\d{1,20}$/u.test(fence)) return undefined;
  return { name, fence: BigInt(fence), agoMs: Math.max(0, nowMs - Number(at)), ...toForce(json) };
}

/** Who ended a lease by force, and why; from the record that renewals and messages bring. */
function toForce(json: string): { by: string; reason: string } {
  const value = parseJson(json);
  const { by, reason } = (typeof value === "object" && value !== null ? value : {}) as Record<string, unknown>;
  return {
    by: typeof by === "string" ? by : "somebody",
    reason: typeof reason === "string" ? reason : "no reason given",
  };
}

/** Why a lease was lost, when the store says that force ended it. */
export function forcedReason(record: string): string {
  const { by, reason } = toForce(FORCED.exec(record)?.[2] ?? record);
  return `${by} ended it by force: ${reason}`;
}

function parse(record: string): Parsed | undefined {
  const [, end, since, number, mode, limit, json] = RECORD.exec(record) ?? [];
  if (number === undefined || json === undefined) return undefined;
  const who = parseJson(json);
  const [holder, meta] = Array.isArray(who) ? (who as unknown[]) : [];
  return {
    endMs: Number(end),
    sinceMs: Number(since),
    number,
    mode: mode === "s" ? "shared" : "exclusive",
    limit: Number(limit),
    holder: typeof holder === "string" ? holder : "unknown",
    meta: toMeta(meta),
  };
}

function toMeta(value: unknown): Meta {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return {};
  return Object.fromEntries(
    Object.entries(value).filter((entry): entry is [string, string] => typeof entry[1] === "string"),
  );
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
