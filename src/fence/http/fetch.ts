/** The sending side of HTTP: every request carries the lease's fence. */
import { allFences, type Fenced } from "../fenced.ts";
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
  const fences = allFences(lease);
  const header = writeFenceHeader(fences);
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

/** Any other 412 (for an If-Match, for example) says nothing about fences: the caller handles it. */
function rejectedBy(response: Response, sent: readonly Fenced[]): FenceRejectedError | undefined {
  const fences = readFenceHeader(response.headers.get(FENCE_HEADER) ?? "");
  for (const { name, fence } of sent) {
    const current = fences?.get(name);
    if (current !== undefined && current > fence) return new FenceRejectedError(name, current, fence);
  }
  return undefined;
}
