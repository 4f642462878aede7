/** Guards over HTTP: a fetch that sends the fence, and middleware that refuses old ones. */
export { type Fetch, fencedFetch, type Sender } from "./fetch.ts";
export { expressGuard, fastifyGuard, fetchGuard } from "./middleware.ts";
export { admittedFence, type HttpGuardOptions } from "./refusal.ts";
