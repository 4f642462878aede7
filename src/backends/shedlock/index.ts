/** Locks in the table of ShedLock (Java) in Postgres, shared with it. */
export { SHEDLOCK_TABLE } from "./table.ts";
export { shedlock } from "./backend.ts";
export type { ShedLockOptions } from "./options.ts";
