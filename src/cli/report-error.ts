/** Turns an error into a message for people, an object for scripts, and an exit code. */
import { isArgumentError } from "../contract/argument-error.ts";
import { LockBackendError, LockError, LockLostError, LockTimeoutError } from "../contract/errors.ts";
import { UsageError } from "./usage-error.ts";
import { EXIT } from "./exit-codes.ts";
import type { Io } from "./io.ts";
import { printable } from "../contract/foreign.ts";
import { helpFor } from "../contract/help.ts";
import { clippedSnapshot } from "../core/snapshot.ts";

export interface FailureOptions {
  readonly json: boolean;
  readonly verbose: boolean;
}

/** Reports `error` on stderr, and with `--json` also as a document on stdout. Returns the exit code. */
export function reportFailure(io: Io, error: unknown, { json, verbose }: FailureOptions): number {
  const exit = exitOf(error);
  const code = codeOf(error);
  const message = error instanceof Error ? error.message : String(error);
  if (json) io.json({ error: { code, message: io.mask(message), exit, help: helpFor(code), ...detailsOf(error) } });
  io.note(`${io.style("stderr", "red", "holdfast:")} ${printable(message)}`);
  for (const line of explain(error)) io.note(`  ${printable(line)}`);
  if (error instanceof UsageError) io.note(`  Try: holdfast ${error.command ?? ""}${error.command ? " " : ""}--help`);
  else io.note(`  More: ${helpFor(code)}`);
  // Wrong usage happened at the prompt, not in the code.
  const wantsFrames = exit === EXIT.internal || (verbose && exit !== EXIT.usage);
  if (wantsFrames && error instanceof Error) for (const frame of framesOf(error)) io.note(frame);
  return exit;
}

/** Where it happened. What it says, which may be foreign text, has been said. */
function framesOf(error: Error): readonly string[] {
  const lines = (error.stack ?? "").split("\n").filter((line) => /^ +at \S/.test(line));
  return lines.map(printable);
}

function exitOf(error: unknown): number {
  if (error instanceof UsageError || isArgumentError(error)) return EXIT.usage;
  if (error instanceof LockTimeoutError) return EXIT.notAcquired;
  if (error instanceof LockLostError) return EXIT.lost;
  if (error instanceof LockError) return EXIT.backend;
  return EXIT.internal;
}

function codeOf(error: unknown): string {
  if (error instanceof LockError) return error.code;
  if (exitOf(error) === EXIT.usage) return "ERR_USAGE";
  return "ERR_INTERNAL";
}

function detailsOf(error: unknown): object {
  if (error instanceof LockTimeoutError)
    return {
      lock: error.lock,
      waitedMs: error.waitedMs,
      ...(error.quarantineMs === undefined ? {} : { quarantineMs: error.quarantineMs }),
      heldBy: clippedSnapshot({ held: error.heldBy, pending: [], forced: [] }).held,
    };
  if (error instanceof LockLostError)
    return { lock: error.lock, fence: error.fence, reason: error.reason, loss: error.loss };
  if (error instanceof LockBackendError) return { lock: error.lock, backend: error.backend, votes: error.votes };
  return {};
}

/** What lies under the message: the votes of a quorum, the error of the connection, or of the renewals that failed. */
function explain(error: unknown): readonly string[] {
  if (!(error instanceof LockBackendError || error instanceof LockLostError)) return [];
  const votes = (error instanceof LockBackendError ? error.votes : []).map(
    ({ member, vote, detail }) => `${member}: ${vote}${detail === "" ? "" : `, ${detail}`}`,
  );
  const cause = error.cause instanceof Error ? error.cause.message : undefined;
  return cause === undefined || error.message.includes(cause) || cause === "" ? votes : [...votes, `because: ${cause}`];
}
