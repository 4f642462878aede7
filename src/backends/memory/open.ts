/** Opens `memory:` URLs: every `memory:<name>` of a process is one store. */
import { ArgumentError } from "../../contract/argument-error.ts";
import type { Member } from "../../contract/backend.ts";
import { memory } from "./backend.ts";
import { type MemoryStore, memoryStore } from "./store.ts";

const stores = new Map<string, MemoryStore>();

/** Opens `memory:` or `memory:<name>`. Equal URLs share their locks, within this thread of this process only. */
export async function openBackend(url: string): Promise<Member> {
  if (!url.startsWith("memory:")) {
    throw new ArgumentError('Expected `url` to start with "memory:", such as "memory:" or "memory:jobs"');
  }
  const name = url.slice("memory:".length);
  // They would be part of the name, and callers that write them differently would use two stores.
  if (/[?#]/.test(name)) throw new ArgumentError("Expected no options after ? or # in `url`: memory: has none");
  const store = stores.get(name) ?? memoryStore();
  stores.set(name, store);
  return memory({ store });
}
