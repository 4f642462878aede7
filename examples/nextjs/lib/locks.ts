// One Locks for the whole server process. A module of Next is evaluated once for each bundle that it is in, and again after each change in
// development: what is in `globalThis` is there once. So there is one connection, and run() re-enters from wherever it is called.
import { connect, type Locks } from "holdfast";

const here = globalThis as unknown as { locks?: Promise<Locks> | undefined };

/** HOLDFAST_URL says where the locks are; without it, they are on this machine. */
export function locks(): Promise<Locks> {
  here.locks ??= connect().catch((error: unknown) => {
    // The next call tries again.
    here.locks = undefined;
    throw error;
  });
  return here.locks;
}
