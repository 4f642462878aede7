/** The schema that the guards in Postgres need, and its marks for guards in front of something else, such as an HTTP middleware. */
import { checkLock, storedFence } from "../fenced.ts";
import { ADVANCE, CHECK_FENCE, FENCE_MARK, GUARD_ROW, REQUIRE_FENCE, SCHEMA } from "../generated/sql.ts";
import type { MarkStore } from "../marks.ts";
import type { Queryable } from "./client.ts";
import { parameters } from "./check.ts";

/**
 * The migration as text, for a migration tool: one table and three functions in the schema `holdfast`.
 * It can be run again at any time, and keeps the marks.
 */
export const FENCE_MIGRATION: string =
  [SCHEMA, FENCE_MARK, CHECK_FENCE, GUARD_ROW, REQUIRE_FENCE].join(";\n\n") + ";\n";

/** "hold" in ASCII: a lock of the database itself, so two migrations at once don't disturb each other. */
const MIGRATION_LOCK = 0x686f6c64;

/** Runs {@link FENCE_MIGRATION}, all of it or nothing. */
export async function migrateFences(client: Queryable): Promise<void> {
  // Sent without parameters, several statements are one transaction.
  await client.query(`select pg_advisory_xact_lock(${MIGRATION_LOCK});\n${FENCE_MIGRATION}`);
}

/** Keeps marks in the table of {@link FENCE_MIGRATION}. Give it the pool: a mark must not wait for another transaction's commit. */
export function postgresMarks(pool: Queryable): MarkStore {
  return {
    async advance(lock, fence) {
      checkLock(lock);
      const { rows } = await pool.query(ADVANCE, parameters({ name: lock, fence }));
      return storedFence(rows[0]?.fence, "holdfast.fence_mark");
    },
  };
}
