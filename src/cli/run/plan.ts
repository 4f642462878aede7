/** What run and elect are asked to do, read from the flags and checked before anything is touched. */
import { basename } from "node:path";

import type { Lease } from "../../core/api.ts";
import { type Found, findProgram } from "./find-program.ts";
import { UsageError } from "../usage-error.ts";
import { formatMs } from "../../contract/duration.ts";
import type { Flags, FlagSpecs } from "../flags.ts";
import type { Io } from "../io.ts";
import { type LockChoice, ownHolder, readLockFlags } from "../lock-flags.ts";
import { nameOf } from "../open-store.ts";
import { PASS_URL_FLAG } from "../url.ts";

const DEFAULT_TTL_MS = 30_000;
const DEFAULT_GRACE_MS = 5000;

export const RUN_FLAGS: FlagSpecs = {
  ttl: { value: "DURATION", help: "how long the lock outlives a dead holder (default 30s)" },
  grace: { value: "DURATION", help: "time between SIGTERM and SIGKILL on loss (default 5s, or ttl/3)" },
  "max-hold": { value: "DURATION", help: "end the command when it has run this long" },
  "pass-url": PASS_URL_FLAG,
  json: { help: "say what happens on stderr, one JSON object a line" },
};

export interface Plan {
  readonly name: string;
  /** The program as typed, and where it is. */
  readonly program: Found & { readonly name: string };
  readonly args: readonly string[];
  readonly choice: LockChoice;
  readonly graceMs: number;
  readonly maxHoldMs: number | undefined;
}

export function readPlan(io: Io, flags: Flags, command: string): Plan {
  if (process.platform === "win32")
    throw new UsageError(`\`${command}\` needs process groups, which Windows does not have`, command);
  const name = nameOf(flags, command, { needsCommand: true });
  const [program, ...args] = flags.rest ?? [];
  if (program === undefined) throw new UsageError("what should be run? Put the command after --", command);
  const choice = readLockFlags(flags, command, { ttlMs: DEFAULT_TTL_MS, app: basename(program) });
  const maxHoldMs = flags.durationMs("max-hold");
  return {
    name,
    program: { ...findProgram(program, io.env["PATH"]), name: program },
    args,
    choice,
    graceMs: readGrace(flags, Math.min(choice.ttlMs, maxHoldMs ?? Infinity), command),
    maxHoldMs,
  };
}

/** What the command sees. The mark by which its descendants are found is added by the gate. */
export function childEnvironment(
  env: Readonly<Record<string, string | undefined>>,
  { name, maxHoldMs }: Plan,
  lease: Lease,
  url: string,
): Record<string, string | undefined> {
  const remainingMs = maxHoldMs === undefined ? lease.remaining() : Math.max(maxHoldMs, 0);
  return {
    ...env,
    HOLDFAST_NAME: name,
    HOLDFAST_FENCE: String(lease.fence),
    HOLDFAST_DEADLINE: String(Math.floor(Date.now() + remainingMs)),
    HOLDFAST_HOLDER: ownHolder(),
    HOLDFAST_URL: url,
  };
}

/** A lease is renewed every third of its ttl; a grace above half would end a command whose lease is in good health. */
function readGrace(flags: Flags, leastMs: number, command: string): number {
  const mostMs = leastMs / 2;
  const graceMs = flags.durationMs("grace", { minMs: 0 });
  if (graceMs !== undefined && graceMs > mostMs) {
    throw new UsageError(`--grace must be at most half of --ttl and of --max-hold: here ${formatMs(mostMs)}`, command);
  }
  return graceMs ?? Math.min(DEFAULT_GRACE_MS, leastMs / 3);
}
