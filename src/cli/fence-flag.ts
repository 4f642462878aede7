/** `--fence N`: the number that names one lease, so that its successor cannot be hit. */
import { UsageError } from "./usage-error.ts";
import type { Flags } from "./flags.ts";

export function fenceOf(flags: Flags, command: string): bigint | undefined {
  const text = flags.text("fence");
  if (text === undefined) return undefined;
  if (!/^\d{1,19}$/.test(text)) throw new UsageError(`--fence ${JSON.stringify(text)} is not a fence`, command);
  return BigInt(text);
}
