/** A snapshot of Holdfast as the standard has it. */
import type { LockHolder, LocksSnapshot, LockWaiter } from "../../core/api.ts";
import type { WebLockInfo, WebLockSnapshot } from "./api.ts";
import { fromLockName } from "./names.ts";

/** In the `meta` of what was requested through a manager: whose it is. */
export const CLIENT = "webLocksClient";

export function toSnapshot({ held, pending }: LocksSnapshot): WebLockSnapshot {
  // Its grant is on its way to a process that still counts it among those who wait.
  const granted = new Set(held.flatMap(({ id }) => (id === undefined ? [] : [id])));
  const waiting = pending.filter(({ id }) => id === undefined || !granted.has(id));
  return {
    // Readers of one process share a lease of the store: each of them is a lock of its own here.
    held: held.flatMap((one) =>
      toInfo(one).flatMap((info) => Array.from({ length: one.processHolders }, () => ({ ...info }))),
    ),
    pending: waiting.flatMap(toInfo),
  };
}

/** None where no request can be for that name. */
function toInfo({ name, mode, holder, meta }: LockHolder | LockWaiter): readonly WebLockInfo[] {
  const asked = fromLockName(name);
  return asked === undefined ? [] : [{ name: asked, mode, clientId: meta[CLIENT] ?? holder }];
}
