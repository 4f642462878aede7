/** `holdfast/quorum`: one lock over several independent stores. */
export { initMembers, type InitResult } from "./init.ts";
export type { QuorumOptions } from "./options.ts";
export { quorum } from "./quorum.ts";
