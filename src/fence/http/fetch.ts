/** The sending side of HTTP: every request carries the lease's fence. */
import { checkFenced, type Fenced } from "../fenced.ts";
import { FENCE_HEADER, readFenceHeader, writeFenceHeader } from "../header.ts";
import { FenceRejectedError } from "../rejected.ts";

export type Fetch = (input: string | URL | Request, init?: RequestInit) => Promise<Response>;

/** A lease, or a fence that came from one. */
export interface Sender extends Fenced {
  assertHeld?(): void;
}

/**
 * Makes a `fetch` that sends the lease's fence with every request, and refuses to send when the lease has ended.
 * Throws `FenceRejectedError` when the other end answers that a later lease has been there.
 */
export function fencedFetch(lease: Sender, send: Fetch = fetch): Fetch {
  const fences = lease.fences ?? new Map([[lease.name, lease.fence]]);
  const header = writeFenceHeader([...fences].map(([name, fence]) => checkFenced({ name, fence })));
  return async (input, init) => {
    lease.assertHeld?.();
    const headers = new Headers(init?.headers ?? (input instanceof Request ? input.headers : undefined));
    headers.set(FENCE_HEADER, header);
    const response = await send(input, { ...init, headers });
    const error = response.status === 412 || response.status === 409 ? rejectedBy(response, fences) : undefined;
    if (error === undefined) return response;
    await response.body?.cancel();
    throw error;
  };
}

/** Any other 412 (an If-Match, say) says nothing of fences, and is the caller's to handle. */
function rejectedBy(response: Response, sent: ReadonlyMap<string, bigint>): FenceRejectedError | undefined {
  const told = readFenceHeader(response.headers.get(FENCE_HEADER) ?? "");
  for (const [name, current] of told ?? []) {
    const offered = sent.get(name);
    if (offered !== undefined && current > offered) return new FenceRejectedError(name, current, offered);
  }
  return undefined;
}
