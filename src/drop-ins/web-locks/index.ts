/** The Web Locks standard, `navigator.locks`, across processes and machines. */
export { installWebLocks, webLocks } from "./install.ts";
export type { InstallOptions } from "./install.ts";
export type {
  WebLock,
  WebLockCallback,
  WebLockInfo,
  WebLockManager,
  WebLockMode,
  WebLockOptions,
  WebLockSnapshot,
} from "./api.ts";
