/** An answer to a claim, as it is believed. */
import { readAnswer } from "../contract/answer.ts";
import type { Granted, Refused } from "../contract/backend.ts";

/** An invalid answer is asked for again, as after an error; an impossible grant is reported, because the next one would be no better. */
export function checkedAnswer(
  backend: string,
  lock: string,
  answer: Granted | Refused,
  nowMs: number,
): Granted | Refused | Promise<never> {
  const read = readAnswer(answer, nowMs);
  if (typeof read === "object") return read;
  if (read === "none") throw new Error("its answer is none");
  return import("../contract/backend-mistake.ts").then(({ mistakenGrant }) => {
    throw mistakenGrant(backend, lock, answer);
  });
}
