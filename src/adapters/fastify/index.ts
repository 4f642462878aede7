/** Fastify 5: routes under a lock, and routes whose requests are done once. */
import type { Lease } from "../../core/api.ts";
import { assertSupported } from "../supported.ts";

export { locked } from "./locked.ts";
export { idempotent } from "./idempotent.ts";
export type { LockedOptions } from "../http/lock-request.ts";
export type { IdempotentOptions } from "../http/idempotency.ts";

assertSupported("fastify", import.meta.url);

declare module "fastify" {
  interface FastifyRequest {
    /** The lease of the last `locked()` or `idempotent()` around the handler; of other routes there is none. */
    lease?: Lease | null;
  }
}
