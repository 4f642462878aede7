/** Quorum (Redlock): one lock over several independent stores. */
export { initMembers, type InitResult } from "./admit-members.ts";
export type { QuorumOptions } from "./options.ts";
export { quorum } from "./backend.ts";
