/** What a process says of itself with a claim, as JSON: for people, never for decisions. */
import { type Claim, HELD_LOCKS_MAX, type HeldLock, type LocalFacts, type Meta } from "../../contract/claim.ts";
import { writeHeld } from "../../contract/local-facts.ts";
import { clipped, HOLDER_MAX, META_BYTES_MAX } from "../../contract/foreign.ts";

/** UTF-16 units of a lock's name: more than any that is let in. */
const NAME_MAX = 4096;
const FENCE = /^\d{1,20}$/u;

export interface Who {
  readonly holder: string;
  readonly meta: Meta;
  readonly local?: LocalFacts;
  readonly lingerMs?: number;
}

/** ASCII only, so that databases of every encoding can keep it. */
export function toAscii(value: unknown): string {
  return JSON.stringify(value).replaceAll(/[^ -~]/gu, (char) =>
    // A character may be two units.
    Array.from({ length: char.length }, (_, i) => `\\u${char.charCodeAt(i).toString(16).padStart(4, "0")}`).join(""),
  );
}

export function toDetail({ holder, meta, local, lingerMs }: Claim): string {
  const who: unknown[] = [clipped(holder, HOLDER_MAX), meta];
  if (local !== undefined) {
    const holds = local.holds.slice(0, HELD_LOCKS_MAX).map(writeHeld);
    const more = local.holdsMore || local.holds.length > HELD_LOCKS_MAX;
    who.push([local.waiters, local.users, holds, more ? 1 : 0]);
  }
  if (lingerMs !== undefined) who[3] = lingerMs;
  return toAscii(who);
}

export function toWho(detail: unknown): Who {
  const who = typeof detail === "string" ? parseJson(detail) : undefined;
  const [holder, meta, facts, lingerMs]: unknown[] = Array.isArray(who) ? who : [];
  const local = toLocal(facts);
  return {
    holder: typeof holder === "string" ? clipped(holder, HOLDER_MAX) : "unknown",
    meta: toMeta(meta),
    ...(local && { local }),
    ...(isCount(lingerMs) && lingerMs > 0 && { lingerMs }),
  };
}

/** A meta that is too long is not shown at all: a part of it would look like the whole. */
function toMeta(value: unknown): Meta {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return {};
  const entries = Object.entries(value).filter((entry): entry is [string, string] => typeof entry[1] === "string");
  const length = entries.reduce((sum, [field, text]) => sum + field.length + text.length, 0);
  return length > META_BYTES_MAX ? {} : Object.fromEntries(entries);
}

/** `undefined`: there are none, or they are not as ours are. */
function toLocal(value: unknown): LocalFacts | undefined {
  const [waiters, users, list, more]: unknown[] = Array.isArray(value) ? value : [];
  if (!isCount(waiters) || !isCount(users) || !Array.isArray(list)) return undefined;
  const holds = list.slice(0, HELD_LOCKS_MAX).flatMap(toHeld);
  return { waiters, users, holds, holdsMore: more !== 0 || holds.length < list.length };
}

function toHeld(value: unknown): readonly HeldLock[] {
  const [name, fence, yields]: unknown[] = Array.isArray(value) ? value : [];
  if (typeof name !== "string" || typeof fence !== "string" || !FENCE.test(fence)) return [];
  return [{ name: clipped(name, NAME_MAX), fence: BigInt(fence), ...(yields === 1 && { yields: true }) }];
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
