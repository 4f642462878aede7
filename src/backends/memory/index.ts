/** Memory: locks inside one process, for tests and development. */
export type { StoreChange } from "./lock.ts";
export type { LeaseView, LockView } from "./show.ts";
export { memory, type MemoryOptions } from "./backend.ts";
export { MemoryStore, memoryStore, type MemoryStoreOptions } from "./store.ts";
