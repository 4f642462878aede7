/** Guards: what makes a fence useful. The common part; each protected thing has a subpath of its own. */
export { type Fenced, fenceCeiling, fenceFor, MAX_FENCE, parseFence } from "./fenced.ts";
export { FENCE_HEADER, readFenceHeader, writeFenceHeader } from "./header.ts";
export { admit, type MarkStore, memoryMarks } from "./marks.ts";
export type { FenceRejectedEvent } from "../contract/events.ts";
export { FenceRejectedError } from "./rejected.ts";
