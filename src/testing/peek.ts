/** Looks at a lease without touching it. */
import type { GroupLease } from "../core/api.ts";
import type { Peekable, Peeked } from "../core/peek.ts";

/** What a lease knows of itself, one entry for each of its locks. Nothing is sent, no signal is made, nothing changes. */
export function peek(lease: GroupLease): readonly Peeked[] {
  return (lease as GroupLease & Peekable).peek();
}
