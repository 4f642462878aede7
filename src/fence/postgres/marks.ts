/** The high-water mark in Postgres, for guards in front of something else: an HTTP middleware, say. */
import { checkLock, storedFence } from "../fenced.ts";
import { ADVANCE } from "../generated/sql.ts";
import type { MarkStore } from "../marks.ts";
import type { Queryable } from "./client.ts";
import { parameters } from "./rejected.ts";

/** Keeps marks in the table of {@link FENCE_MIGRATION}. Give it the pool: a mark must not wait for anybody's commit. */
export function postgresMarks(pool: Queryable): MarkStore {
  return {
    async advance(lock, fence) {
      checkLock(lock);
      const { rows } = await pool.query(ADVANCE, parameters({ name: lock, fence }));
      return storedFence(rows[0]?.fence, "holdfast.fence_mark");
    },
  };
}
