/**
 * Records as text, and the checks of what was read. A record is JSON that begins with a checksum of the rest, so what was cut off,
 * changed by hand or by a broken disk, or never ours, is recognised. It is no signature: a process that may write here may forge.
 */
import { crc32 } from "node:zlib";
import type { Meta } from "../../contract/backend.ts";

const CHECKSUM_LENGTH = checksumOf("").length;

/** The text of a record, with its checksum. */
export function withChecksum(record: object): string {
  const rest = `${JSON.stringify(record).slice(1)}\n`;
  return checksumOf(rest) + rest;
}

/** The record in a text. `undefined`: its checksum is wrong or missing. */
export function parseChecked(text: string): unknown {
  const rest = text.slice(CHECKSUM_LENGTH);
  return text.startsWith(checksumOf(rest)) ? parseJson(`{${rest}`) : undefined;
}

export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function checksumOf(rest: string): string {
  return `{"sum":"${crc32(rest).toString(16).padStart(8, "0")}",`;
}

/** Ids of lease files and instances are file names: nothing else may become one. */
export function isId(value: unknown): value is string {
  return typeof value === "string" && /^[-_A-Za-z0-9]{1,64}$/.test(value);
}

export function isTextOrNone(value: unknown): value is string | undefined {
  return value === undefined || typeof value === "string";
}

export function isMeta(value: unknown): value is Meta {
  return isRecord(value) && Object.values(value).every((text) => typeof text === "string");
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function isListOf<T>(value: unknown, is: (item: unknown) => item is T): value is T[] {
  return Array.isArray(value) && value.every(is);
}

/** `undefined` unless each item can be read. */
export function toList<T>(value: unknown, to: (item: unknown) => T | undefined): T[] | undefined {
  if (!Array.isArray(value)) return undefined;
  const items = value.map(to).filter((item) => item !== undefined);
  return items.length === value.length ? items : undefined;
}

export function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

export function isTime(value: unknown): value is number {
  return typeof value === "number" && Number.isFinite(value);
}
