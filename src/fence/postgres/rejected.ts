/** Finds the guard's refusal in an error of the database. */
import { type Fenced, parseFence } from "../fenced.ts";
import { FenceRejectedError, reject } from "../rejected.ts";

/** Raised by holdfast.check_fence() and holdfast.guard_row(). */
const FENCE_REJECTED = "LK001";

/** The error to throw instead, where the database refused an old fence; `undefined` for any other error. */
export function rejectedBy(error: unknown, fences: readonly Fenced[]): FenceRejectedError | undefined {
  if (error instanceof FenceRejectedError) return error;
  if (!(error instanceof Error) || !("code" in error) || error.code !== FENCE_REJECTED) return undefined;
  const told = "detail" in error ? parseDetail(error.detail) : {};
  const current = parseFence(told.current);
  const offered = parseFence(told.offered);
  // A row does not know which lock protects it: then it is one of those that were offered.
  const name =
    typeof told.lock === "string" ? told.lock : (fences.find(({ fence }) => fence === offered) ?? fences[0])?.name;
  if (current === undefined || offered === undefined || name === undefined) return undefined;
  return reject("postgres", { name, fence: offered }, current, error);
}

/** Lock and fence as parameters: decimal text, cast to bigint by the server. */
export function parameters({ name, fence }: Fenced): [string, string] {
  if (name.includes("\0")) throw new TypeError("Expected a lock's name without NUL: Postgres cannot store one in text");
  return [name, fence.toString()];
}

function parseDetail(detail: unknown): { lock?: unknown; current?: unknown; offered?: unknown } {
  try {
    const parsed: unknown = JSON.parse(String(detail));
    return typeof parsed === "object" && parsed !== null ? parsed : {};
  } catch {
    return {};
  }
}
