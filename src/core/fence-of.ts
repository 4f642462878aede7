/** `lease.fenceOf(name)`: a fence per lock, and an error for a name that the lease does not cover. */
import { ArgumentError, got } from "../contract/argument-error.ts";
import type { GroupLease } from "./api.ts";

export function fenceOf({ name, fences }: GroupLease, of: string): bigint {
  const fence = fences.get(of);
  if (fence !== undefined) return fence;
  throw new ArgumentError(`Expected \`name\` to be one of the locks of this lease (${name}), got ${got(of)}`);
}
