/** Several locks: all or nothing, always in the same order, so two callers that want the same locks never wait for each other. */
import type { Clock } from "../contract/clock.ts";
import { LockClosedError } from "../contract/errors.ts";
import { MultiLease } from "./multi-lease.ts";
import type { HeldLease } from "./lease.ts";
import { onAbort } from "../contract/on-abort.ts";
import { pause } from "./pause.ts";
import { Scope } from "./reentry.ts";
import type { HeldScope } from "./shown.ts";
import { answerMs, type CheckedOptions } from "./options.ts";

const PAUSE_MIN_MS = 20;
const PAUSE_MAX_MS = 1000;

type Take = (name: string, options: CheckedOptions, waitMs: number) => Promise<HeldLease | null>;

/** What is needed of the engine: time, and the news that closing has begun. */
interface Around {
  readonly clock: Clock;
  readonly closing: AbortSignal;
}

/**
 * Takes them one after the other. Where one is lost while the rest is waited for, it begins again, as long as there is time.
 * Only close() waits for the store to take back what it has of a group that is not handed out.
 */
export async function acquireAll(
  { clock, closing }: Around,
  names: readonly string[],
  options: CheckedOptions,
  take: Take,
): Promise<HeldLease | MultiLease | null> {
  // Used instead of the caller's signal, which is read only here: it may be a class of the user's own, and throw.
  const caller = new AbortController();
  const { signal } = caller;
  const unlisten = onAbort(options.signal, (reason) => caller.abort(reason));
  const sorted = [...new Set(names)].toSorted();
  // Those who do not queue ask for one after the other: each answer has its time, unless the caller has set a limit for all.
  const eachMs = answerMs(options);
  const untilMs = clock.now() + (options.waitMs || eachMs * sorted.length);
  try {
    for (let round = 0; ; round++) {
      const parts: HeldLease[] = [];
      const end = await takeEach(sorted, parts, { ...options, signal }, (name, its) =>
        take(name, its, Math.max(1, Math.min(eachMs, untilMs - clock.now()))),
      ).catch((error: unknown) => ({ error }));
      // Checked by the clock, in the same step that hands them out: a timer may be late, and one turn later they may be lost.
      const lost = parts.find((part) => part.stateNow() === "lost")?.lost;
      // What its caller is inside of goes on; the rest would be released before the caller has it.
      const isClosed = closing.aborted && parts.some(({ outer }) => outer === undefined);
      if (end === "all" && lost === undefined && !signal.aborted && !isClosed)
        return parts.length === 1 ? parts[0]! : new MultiLease(parts);
      for (const part of parts) part.discard();
      if (signal.aborted) throw signal.reason;
      if (end === "busy") return null;
      const error = end === "all" ? (lost ?? new LockClosedError(String(sorted))) : end.error;
      if (lost === undefined) throw error;
      // Once at once; but parts that end before the rest can be had would be taken for ever, without a pause.
      const pauseMs = Math.min(PAUSE_MAX_MS, PAUSE_MIN_MS * 2 ** Math.min(round, 10), untilMs - clock.now());
      if (round > 0) await pause(clock, pauseMs, [signal, closing]);
      if (clock.now() >= untilMs) throw error;
    }
  } finally {
    unlisten();
  }
}

/** Adds to `parts` what it gets. Stops waiting for the rest as soon as one of them is lost, or the caller's own signal aborts. */
async function takeEach(
  sorted: readonly string[],
  parts: HeldLease[],
  options: CheckedOptions,
  take: (name: string, options: CheckedOptions) => Promise<HeldLease | null>,
): Promise<"all" | "busy"> {
  const end = new AbortController();
  const unlisten = onAbort(options.signal, (reason) => end.abort(reason));
  try {
    for (const name of sorted) {
      const scope = parts.length === 0 ? undefined : holding(parts, Scope.innermost());
      const part = await take(name, { ...options, signal: end.signal, scope });
      if (part === null) return "busy";
      parts.push(part);
      // Not its signal, which may have been aborted for another reason: the work around it was asked to stop.
      part.onLost = () => end.abort(part.lost);
      if (part.lost !== undefined) end.abort(part.lost);
    }
    return "all";
  } finally {
    unlisten();
    for (const part of parts) part.onLost = undefined;
  }
}

/** What a call holds while it waits for the rest of a group, and its caller besides. */
function holding(parts: readonly HeldLease[], outer: HeldScope | undefined): HeldScope {
  const held = (locks: object): ReturnType<HeldScope["held"]> => {
    const own = parts.flatMap((part) => part.peek()).filter(({ state }) => state === "held");
    return [...own.map(({ name, fence }) => ({ name, fence })), ...(outer?.held(locks) ?? [])];
  };
  return { held };
}
