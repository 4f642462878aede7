/** A span's context as W3C writes it: what a holder leaves in its claim's `meta`, and what a waiter reads there. */
import type { Link, SpanContext } from "@opentelemetry/api";
import type { Holding } from "../../contract/backend.ts";

/** Version `ff` is none. */
const FORMAT = /^(?!ff)[\da-f]{2}-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})$/;
const NO_TRACE = "0".repeat(32);
const NO_SPAN = "0".repeat(16);
/** A lock with a limit may have many holders: the first few say enough. */
const LINKS_MAX = 8;

export function toTraceparent({ traceId, spanId, traceFlags }: SpanContext): string {
  return `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, "0")}`;
}

/** What others wrote may be anything. */
export function fromTraceparent(text: unknown, isRemote = true): SpanContext | undefined {
  const [, traceId, spanId, flags] = typeof text === "string" ? (FORMAT.exec(text) ?? []) : [];
  if (traceId === undefined || spanId === undefined || traceId === NO_TRACE || spanId === NO_SPAN) return undefined;
  return { traceId, spanId, traceFlags: Number.parseInt(flags ?? "0", 16) & 1, isRemote };
}

/** Links to those who were in the way, as far as they are traced. */
export function linksTo(heldBy: readonly Holding[] | undefined): readonly Link[] {
  const links: Link[] = [];
  for (const { meta, fence } of heldBy ?? []) {
    const context = fromTraceparent(meta["traceparent"]);
    if (context !== undefined) links.push({ context, attributes: { "holdfast.held_by.fence": String(fence) } });
    if (links.length >= LINKS_MAX) break;
  }
  return links;
}
