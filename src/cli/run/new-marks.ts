/** Makes the marks of a command. Apart from what reads them: the warden only reads, and starts sooner without Node's cryptography. */
import { createHash, randomBytes } from "node:crypto";
import type { Marks } from "./process-marks.ts";

export function newMarks(): Marks {
  // Above 2^61 and below 2^62: a number that is never set by hand, and that no shell has to round.
  const limit = (randomBytes(8).readBigUInt64BE() >> 3n) | (1n << 61n);
  const mark = randomBytes(12).toString("base64url");
  const witness = createHash("sha256").update(mark).digest("base64url").slice(0, 16);
  return { mark, limit: limit.toString(), witness };
}
