/**
 * The password of the lab's servers. Other users of the machine can reach a loopback port, and a Redis or Postgres that asks
 * for no password gives them the rights of this user.
 */
import { randomBytes } from "node:crypto";

/** Inherited by the processes that this one starts, and readable by this user only. */
const VARIABLE = "HOLDFAST_LAB_PASSWORD";

/** One for all servers that this process and its children start: random, and never on a command line, where all can read it. */
export function labPassword(): string {
  return (process.env[VARIABLE] ??= randomBytes(24).toString("base64url"));
}
