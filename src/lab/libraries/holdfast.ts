/** Holdfast itself as a contender: the public API and nothing else. */
import type { AcquireOptions, Lease, Locks } from "../../core/api.ts";
import { connect } from "../../connect.ts";
import { LockBackendError, LockLostError, LockTimeoutError } from "../../contract/errors.ts";
import { machineMs } from "../../contract/machine-clock.ts";
import type { LockLibrary, Hold, Link, Terms } from "./library.ts";

export async function openHoldfast(link: Link, holder: string): Promise<LockLibrary> {
  const locks = await connectAtLast(link.url, holder);
  return {
    acquire: async (name, terms) => {
      try {
        return toHold(await locks.acquire(name, toOptions(terms)));
      } catch (error) {
        if (error instanceof LockTimeoutError) return undefined;
        throw error;
      }
    },
    close: () => locks.close({ grace: 1, force: true }),
  };
}

/** A client may be started while the store is struck: an error that is not fatal means that it may answer later. */
async function connectAtLast(url: string, holder: string): Promise<Locks> {
  for (;;) {
    try {
      return await connect(url, { holder });
    } catch (error) {
      if (!(error instanceof LockBackendError) || error.fatal) throw error;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}

function toOptions(terms: Terms): AcquireOptions {
  return {
    ttl: terms.ttlMs,
    wait: terms.waitMs,
    lockDelay: terms.lockDelayMs,
    maxHold: terms.maxHoldMs,
    renew: terms.renew,
    mode: terms.mode,
  };
}

function toHold(lease: Lease): Hold {
  return {
    fence: lease.fence,
    trustedUntilMs: () => machineMs() + lease.remaining(),
    onLost: (tell) => {
      const say = (): void => tell(reasonOf(lease.signal.reason));
      if (lease.signal.aborted) say();
      else lease.signal.addEventListener("abort", say, { once: true });
    },
    isHeld: () => lease.remaining() > 0,
    release: () => lease.release(),
  };
}

function reasonOf(reason: unknown): string {
  if (reason instanceof LockLostError) return reason.reason;
  return reason instanceof Error ? reason.message : String(reason);
}
