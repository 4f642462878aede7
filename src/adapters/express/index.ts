/** Express 4 and 5: requests under a lock, and requests that are done once. */
import type { Lease } from "../../core/api.ts";
import { assertSupported } from "../supported.ts";

export { locked } from "./locked.ts";
export { type ExpressIdempotentOptions, idempotent } from "./idempotent.ts";
export type { LockedOptions } from "../http/lock-request.ts";
export type { IdempotentOptions } from "../http/idempotency.ts";

assertSupported("express", import.meta.url);

declare global {
  // The namespace in which Express's own types let others add to its requests.
  namespace Express {
    interface Request {
      /** The lease of the last `locked()` or `idempotent()` before the handler. */
      lease?: Lease;
    }
  }
}
