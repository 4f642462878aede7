export type { LeaseView, LockView, StoreChange } from "./lock.ts";
export { memory, type MemoryOptions } from "./backend.ts";
export { MemoryStore, memoryStore, type MemoryStoreOptions } from "./store.ts";
