/** Guards in Postgres: a conditional update, a check in the transaction, triggers, and marks for other guards. */
export { checkFence, withFence, type WithFenceOptions } from "./check.ts";
export type { Pool, PoolClient, Queryable, QueryResult } from "./client.ts";
export { FENCE_MIGRATION, migrateFences, postgresMarks } from "./marks.ts";
export { type FencedUpdate, updateFenced } from "./update.ts";
