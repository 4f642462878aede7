/** A web page of all locks, live, to be mounted in an app. */
export { createConsole } from "./create.ts";
export type { Console } from "./handler.ts";
export type { AuditEntry, Authorize, ConsoleAction, ConsoleOptions, StoreHealth } from "./options.ts";
export type { Finding } from "./wire.ts";
