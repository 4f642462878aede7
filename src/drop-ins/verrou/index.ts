/** A driver for Verrou, the locks of AdonisJS: its users get fences and loss signals. */
import { assertSupported } from "./supported.ts";

export { holdfastStore } from "./store.ts";
export type { HoldfastDriver, VerrouLock, VerrouStore } from "./store.ts";

assertSupported(import.meta.url);
