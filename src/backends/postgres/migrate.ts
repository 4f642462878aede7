/** The schema that the locks need: tables and functions in `holdfast`, made in one transaction, by any number of processes at once. */
import * as sql from "./generated/sql.ts";

/** Of the tables and functions; written into `holdfast.store`. */
export const VERSION = 3;

/**
 * The migration as text, for a migration tool. It can be run again at any time, and keeps what is there. Run it in one transaction, as a
 * role that may create schemas in the database; no superuser is needed.
 */
export const LOCKS_MIGRATION: string =
  [
    sql.SCHEMA,
    sql.VERSION_CHECK,
    sql.STORE,
    sql.LEASE,
    sql.WAITER,
    sql.WAITING,
    sql.WAITER_ORDER,
    sql.FORCED,
    sql.STORE_ROW,
    sql.OUTCOME,
    sql.NOW_US,
    sql.BEGIN_STEP,
    sql.MOVE_WAITER,
    sql.OPEN_LOCK,
    sql.YOUNG,
    sql.GRANT_LEASE,
    sql.SEND_NEWS,
    sql.WANTED,
    sql.PROMOTE,
    sql.LEAVE,
    sql.RUN,
    sql.HOLDING,
    sql.REFUSAL,
    sql.KEPT_OUTCOME,
    sql.ENTER,
    sql.KEEP_ON,
    sql.TELL_HOLDERS,
    sql.END_BY_FORCE,
    sql.ATTEMPT,
    sql.RELEASE,
    sql.RELEASE_MANY,
    sql.FINISH,
    sql.SWAP,
    sql.RENEW,
    sql.BEAT,
    sql.FORCE_RELEASE,
    sql.STEAL,
    sql.FORGET,
    sql.LOOK_WANTED,
    sql.EXPECT_WANTED,
    sql.LOOK,
    sql.INSPECT,
    sql.WHY,
    sql.CLEAN,
    sql.STORE_FACTS,
    sql.END_QUARANTINE,
    sql.ALONE,
    sql.RIGHTS,
  ].join(";\n\n") + ";\n";

/** "hold" in ASCII: a lock of the database itself, so that two migrations at once, also that of the guards, take turns. */
const MIGRATION_LOCK = 0x686f6c64;

/** How long it waits for its turn, and later for each lock, at most. The server ends it then, whether its process is still there or not. */
const TURN_MS = 20_000;

/** Sent without parameters, several statements are one transaction: all of it is done, or nothing. */
export function inTurn(script: string): string {
  return `select pg_catalog.set_config('lock_timeout', '${TURN_MS}', true);
select pg_catalog.pg_advisory_xact_lock(${MIGRATION_LOCK});\n${script}`;
}

export const MIGRATE: string = inTurn(LOCKS_MIGRATION);
