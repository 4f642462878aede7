/** Hono 4: requests under a lock, and requests that are done once. Built on `Request` and `Response` alone. */
import { assertSupported } from "../supported.ts";

export { locked } from "./locked.ts";
export { idempotent } from "./idempotent.ts";
export type { Leased } from "./response.ts";
export type { LockedOptions } from "../http/lock-request.ts";
export type { IdempotentOptions } from "../http/idempotency.ts";

assertSupported("hono", import.meta.url);
