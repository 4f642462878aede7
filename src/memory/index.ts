export type { StoreChange } from "./lock.ts";
export { memory, type MemoryOptions } from "./memory.ts";
export { MemoryStore, memoryStore, type MemoryStoreOptions } from "./store.ts";
export type { LeaseView, LockView } from "./view.ts";
