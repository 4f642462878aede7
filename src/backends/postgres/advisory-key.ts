/** The number by which Postgres knows an advisory lock, as DistributedLock (.NET) makes it from a name: so both can share locks. */
import { createHash } from "node:crypto";

/** The two spaces of advisory locks: one number of 64 bits, or two of 32. Equal bits in different spaces are different locks. */
export type AdvisoryKey =
  | { readonly space: "one"; readonly key: bigint }
  | { readonly space: "two"; readonly high: number; readonly low: number };

const ASCII_MAX = 9;
const ONE = /^[0-9a-f]{16}$/iu;
const TWO = /^([0-9a-f]{8}),([0-9a-f]{8})$/iu;

/**
 * Up to nine ASCII characters stand in the number itself, sixteen hex digits are the number, and every other name is hashed. Two names with
 * one number would exclude each other for nothing, and never share a lock that they should not.
 */
export function advisoryKey(name: string): AdvisoryKey {
  if (name.length <= ASCII_MAX && /^[\0-\x7f]*$/u.test(name)) return inTwo(asciiBits(name));
  if (ONE.test(name)) return { space: "one", key: BigInt.asIntN(64, BigInt(`0x${name}`)) };
  const [, high, low] = TWO.exec(name) ?? [];
  if (high !== undefined && low !== undefined) return inTwo(BigInt(`0x${high}${low}`));
  return { space: "one", key: createHash("sha1").update(name, "utf8").digest().readBigInt64LE(0) };
}

/** Seven bits for each character, a zero, and ones up to 64 bits: so no name is the beginning of another. */
function asciiBits(name: string): bigint {
  const bits = Buffer.from(name, "ascii").reduce((sum, code) => (sum << 7n) | BigInt(code), 0n) << 1n;
  const free = BigInt(7 * (ASCII_MAX - name.length));
  return (bits << free) | ((1n << free) - 1n);
}

function inTwo(bits: bigint): AdvisoryKey {
  return {
    space: "two",
    high: Number(BigInt.asIntN(32, bits >> 32n)),
    low: Number(BigInt.asIntN(32, bits)),
  };
}
