export type { StoreChange } from "./lock.ts";
export { memory, type MemoryOptions } from "./backend.ts";
export { MemoryStore, memoryStore, type MemoryStoreOptions } from "./store.ts";
export type { LeaseView, LockView } from "./view.ts";
