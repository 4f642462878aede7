/** Postgres: locks in tables of their own, through your own pool or client. */
export { postgres } from "./backend.ts";
export type { PgClient, PgPool, PostgresClient, PostgresJs } from "./clients/structure.ts";
export { LOCKS_MIGRATION } from "./migrate.ts";
export type { PostgresOptions } from "./options.ts";
export { type TransactionClient, type TransactionLockOptions, withTransactionLock } from "./transaction-lock.ts";
