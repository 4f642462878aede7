/** `lease.extend()`: one renewal now, asked for until the store has answered or the lease is over. Loaded with its first use. */
import { asked, readCause, readRenewal } from "../contract/answer.ts";
import type { Claim } from "../contract/backend.ts";
import type { SentAt } from "../contract/clock.ts";
import { declined } from "../contract/declined.ts";
import type { Duration } from "../contract/duration.ts";
import { isA, LockBackendError } from "../contract/errors.ts";
import { jitter } from "../contract/random.ts";
import { within } from "../contract/time-limit.ts";
import type { Hold } from "./hold.ts";
import { toTtlMs } from "./options.ts";
import { pause } from "./pause.ts";
import type { Runtime } from "./release-until.ts";
import type { Watchdog } from "./watchdog.ts";

const PAUSE_MIN_MS = 10;
const PAUSE_MAX_MS = 1000;

interface ExtendParts extends Runtime {
  readonly watchdog: Watchdog;
}

/** The lease that is extended. */
interface Extended {
  stateNow(): string;
  /** The same, and notices nothing. */
  peek(): readonly { readonly state: string }[];
  /** Throws when it is not surely held. */
  assertHeld(): void;
  remaining(): number;
}

/** Resolves to the lease's time when the store has renewed its hold. */
export async function extend(
  lease: Extended,
  hold: Hold,
  ttl: Duration | undefined,
  parts: ExtendParts,
): Promise<number> {
  const { backend, clock, chance, sleep, ended, watchdog } = parts;
  const ttlMs = ttl === undefined ? undefined : toTtlMs(ttl);
  if (ttlMs !== undefined && ttlMs !== hold.claim.ttlMs && backend.can?.otherTtl !== true)
    throw declined(backend.name, backend.can ?? {}, "otherTtl", hold.claim.name);
  const over = new AbortController();
  const unlisten = hold.onChange(() => lease.peek().some(({ state }) => isOver(state)) && over.abort());
  try {
    for (let round = 0; ; round++) {
      assertNotOver(lease);
      const before = hold.toRenew();
      // A shorter ttl counts from the next renewal on: this one takes nothing away.
      const claim: Claim = { ...before, ttlMs: Math.max(before.ttlMs, ttlMs ?? 0) };
      hold.expectTtl(claim.ttlMs);
      const sent = sleep.sentNow();
      const patienceMs = Math.max(1, Math.min(hold.ttlMs / 3, hold.remainingMs(sent.atMs)));
      // One that hangs is asked for again. Who releases the lease does not wait for it.
      const read = await within(clock, ask(hold, claim, sent, parts), patienceMs, over.signal);
      assertNotOver(lease);
      if (typeof read === "object" && "gone" in read) hold.lose(read.gone);
      else if (read !== undefined) {
        const fromMs = typeof read === "number" ? read : read.wantedFromMs;
        hold.shown(before);
        hold.retime(claim, ttlMs ?? hold.claim.ttlMs, fromMs, sent);
        watchdog.keepAnew(hold);
        hold.hearAnswer(read !== fromMs, sent.atMs);
        // After a sleep on the way, only another answer says that it is held.
        if (!hold.inDoubt(clock.now())) {
          lease.assertHeld();
          return lease.remaining();
        }
      }
      assertNotOver(lease);
      const pauseMs = Math.min(PAUSE_MAX_MS, hold.ttlMs / 8, PAUSE_MIN_MS * 2 ** Math.min(round, 10));
      await pause(clock, jitter(pauseMs, 0.5, 1, chance), [ended, over.signal]);
    }
  } finally {
    unlisten();
  }
}

/** What the store says. `undefined`: nothing that could be. */
async function ask(
  hold: Hold,
  claim: Claim,
  sent: SentAt,
  { backend, clock }: ExtendParts,
): Promise<ReturnType<typeof readRenewal>> {
  try {
    const answers = await asked(() => backend.renew([claim], [hold.firstFence]));
    const renewals = Array.isArray(answers) ? answers : undefined;
    const read = readRenewal(renewals, 0, sent.atMs, clock.now());
    // To ask again would not help, such as for a longer ttl than the store may be asked for.
    if (read === undefined) throwIfFatal(readCause(renewals, 0));
    return read;
  } catch (error) {
    throwIfFatal(error);
    return undefined;
  }
}

function throwIfFatal(error: unknown): void {
  if (isA(LockBackendError, error) && error.fatal) throw error;
}

function isOver(state: string): boolean {
  return state === "released" || state === "lost";
}

function assertNotOver(lease: Extended): void {
  if (isOver(lease.stateNow())) lease.assertHeld();
}
