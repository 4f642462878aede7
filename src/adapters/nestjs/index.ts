/** NestJS 10 to 12: a module, methods under a lock, methods whose work is done once. */
import { assertSupported } from "../supported.ts";

export { currentLease } from "../current-lease.ts";
export {
  Lock,
  type LockDecoratorOptions,
  Once,
  type OnceDecoratorOptions,
  type PromiseMethodDecorator,
} from "./decorators.ts";
export { type LocksHealth, LocksHealthIndicator, type LocksHealthOptions, type LocksStatus } from "./health.ts";
export { attachLocks, getLocksToken, InjectLocks } from "./injection.ts";
export type { LockKey } from "./key.ts";
export { type LocksAsyncOptions, LocksModule, type LocksOptionsFactory, type LocksRootOptions } from "./module.ts";
export type { LocksModuleOptions } from "./stores.ts";

assertSupported("@nestjs/core", import.meta.url);
