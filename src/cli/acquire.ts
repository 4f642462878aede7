/** `holdfast acquire NAME`: takes a lease that outlives this process, for scripts of several steps. */
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

import { type Grant, Seeker } from "../acquire.ts";
import type { Claim, Granted } from "../backend.ts";
import { systemChance } from "../chance.ts";
import { systemClock } from "../clock.ts";
import { MAX_TTL_MS } from "../duration.ts";
import { LockBackendError, LockTimeoutError, quote } from "../errors.ts";
import { checkName } from "../spec.ts";
import { ask } from "./ask.ts";
import { startTimeOf } from "./child/processes.ts";
import { forgetOldClaims, isClaimId, type Keeper, prepareClaims } from "./claims.ts";
import { type Command, UsageError } from "./command.ts";
import { whileStoreAnswers } from "./contact.ts";
import { EXIT } from "./exits.ts";
import { reportFailure } from "./failure.ts";
import type { Flags } from "./flags.ts";
import { insist } from "./insist.ts";
import type { Io } from "./io.ts";
import { LOCK_FLAGS, type LockChoice, ownHolder, readLockFlags, WAIT_FLAGS } from "./lock-flags.ts";
import { nameOf, type OpenStore, withLocks } from "./open.ts";
import { Outcome } from "./outcome.ts";
import { showProgress } from "./progress.ts";
import { Signals } from "./signals.ts";

const DEFAULT_TTL_MS = 300_000;

export const acquireCommand: Command = {
  spec: {
    name: "acquire",
    summary: "Take a lease that outlives this command, and print its fence",
    usage: ["acquire NAME [FLAGS]"],
    about: [
      "For scripts of several steps. The lease ends after --ttl unless `holdfast renew` renews it, and with `holdfast release`. Nothing kills your script when it ends: where one command does all the work, `holdfast run` is safer.",
      "Given the same --claim again, acquire gives the same lease again, so that a step can be repeated.",
    ],
    flags: {
      ...WAIT_FLAGS,
      ttl: { value: "DURATION", help: "the lease ends after this long unless renewed (default 5m)" },
      ...LOCK_FLAGS,
      pid: { value: "PID", help: "file: only: hold it while that process lives, such as $$, whatever the ttl" },
      claim: { value: "ID", help: "an id of your own: 22 letters, digits, - or _ (default: random)" },
      "show-claim": { help: "with --json: print the claim too. Whoever has it can renew and release the lease" },
      "conflict-exit-code": { short: "E", value: "N", help: "exit with N instead of 75 when not acquired" },
    },
    examples: [
      ["fence=$(holdfast acquire deploy --wait 10m --ttl 5m) || exit", "take it"],
      ['holdfast renew deploy --fence "$fence"', "five more minutes"],
      ['holdfast release deploy --fence "$fence"', "give it back"],
      ["holdfast acquire deploy --pid $$ || exit", "held until this script ends, however it ends"],
      ["holdfast acquire deploy --json --show-claim", "the claim too, to go on from another machine"],
    ],
    exits: ["ok", "usage", "backend", "notAcquired", "signal"],
    completes: "lock",
  },
  async run(io, flags) {
    const name = nameOf(flags, "acquire");
    checkName(name);
    const keeper = readKeeper(flags);
    const choice = readLockFlags(flags, "acquire", { ttlMs: keeper === undefined ? DEFAULT_TTL_MS : MAX_TTL_MS });
    const claim = newClaim(name, choice, readId(flags), keeper?.pid, flags.text("claim") !== undefined);
    // What cannot be noted down must not be taken.
    prepareClaims(io);
    forgetOldClaims(io, Date.now());
    const signals = new Signals();
    const outcome = new Outcome(io, flags, claim, keeper);
    try {
      const work = async (store: OpenStore): Promise<number> => {
        const grant = await whileStoreAnswers(
          () => ask(store, name),
          signals.stop.signal,
          (stop) => seek(io, flags, store, { claim, choice, stop }),
        );
        if (grant !== undefined) return succeed(io, store, outcome, grant);
        const error = await refusal(store, name, choice.waitMs);
        const exit = reportFailure(io, error, { json: flags.has("json"), verbose: flags.has("verbose") });
        return flags.integer("conflict-exit-code", { min: 0, max: 255 }) ?? exit;
      };
      const beforeDetached = (lease: Granted): void => void outcome.prepare(lease, systemClock.now());
      return await withLocks(io, flags, work, { outlives: keeper === undefined ? true : "tied", beforeDetached });
    } catch (error) {
      if (signals.exitCode !== undefined) return signals.exitCode;
      throw error;
    } finally {
      signals.dispose();
    }
  },
};

function newClaim(
  name: string,
  { options, ttlMs, waitMs }: LockChoice,
  id: string,
  pid: number | undefined,
  resumes: boolean,
): Claim {
  return {
    id,
    name,
    mode: options.mode ?? "exclusive",
    limit: options.limit ?? 1,
    ttlMs,
    lockDelayMs: Number(options.lockDelay ?? 0),
    minHoldMs: Number(options.minHold ?? 0),
    // The shell or script that called us: whom to look for while the lease lasts.
    holder: ownHolder(pid ?? callerPid()),
    meta: options.meta ?? {},
    queues: waitMs > 0,
    resumes,
  };
}

/** The script that called us. In `$(holdfast acquire …)` our parent is a copy of its shell that is about to end. */
function callerPid(): number {
  let pid = process.ppid;
  try {
    for (let up = parentOf(pid); up > 1 && commandOf(up) === commandOf(pid); up = parentOf(pid)) pid = up;
  } catch {
    // No /proc, or it ended meanwhile: it is only shown to people.
  }
  return pid;
}

function parentOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
  return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]);
}

function commandOf(pid: number): string {
  return readFileSync(`/proc/${pid}/cmdline`, "latin1");
}

/** The process whose life is to be the lease's. */
function readKeeper(flags: Flags): Keeper | undefined {
  const pid = flags.integer("pid", { min: 1, max: 2 ** 31 - 1 });
  if (pid === undefined) return undefined;
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EPERM")
      throw new UsageError(`there is no process ${pid}`, "acquire");
  }
  return { pid, startTime: startTimeOf(pid) };
}

function readId(flags: Flags): string {
  const id = flags.text("claim");
  if (id === undefined) return idForAFlag();
  if (!isClaimId(id)) throw new UsageError(`--claim must be 22 letters, digits, - or _, and hard to guess`, "acquire");
  return id;
}

/** An id that begins with a dash would be taken for a flag when it is given back as `--claim ID`. */
function idForAFlag(): string {
  for (;;) {
    const id = systemChance.id();
    if (!id.startsWith("-")) return id;
  }
}

async function seek(
  io: Io,
  flags: Flags,
  { backend, locks }: OpenStore,
  { claim, choice, stop }: { claim: Claim; choice: LockChoice; stop: AbortSignal },
): Promise<Grant | undefined> {
  const seeker = new Seeker({ backend, clock: systemClock, chance: systemChance }, claim, undefined);
  const { name, holder } = claim;
  const progress = {
    name,
    holder,
    waitMs: choice.waitMs,
    query: () => ask({ locks, backend }, name),
    verb: "waiting for",
  };
  const done = flags.has("quiet") ? () => {} : showProgress(io, progress);
  const over = new AbortController();
  const callOff = (): void => void seeker.callOff();
  stop.addEventListener("abort", callOff);
  try {
    if (Number.isFinite(choice.waitMs) && choice.waitMs > 0) {
      // Ended early by `over`, when the answer has come.
      void sleep(choice.waitMs, undefined, { signal: over.signal }).then(callOff, () => {});
    }
    const grant = await seeker.seek();
    if (grant !== undefined) return grant;
    // Nothing may be left behind: the release that the seeker began goes out before the store is closed.
    if (claim.queues) await backend.release(claim).catch(() => false);
    // Stopped, or never answered: that says more than "not free".
    stop.throwIfAborted();
    const trouble = seeker.refused === undefined ? seeker.troubleAt(systemClock.now()) : undefined;
    if (trouble !== undefined) throw trouble;
    return undefined;
  } finally {
    over.abort();
    stop.removeEventListener("abort", callOff);
    done();
  }
}

/** Tells of the lease, after which nothing of it depends on this process. */
async function succeed(io: Io, store: OpenStore, outcome: Outcome, { granted, sent }: Grant): Promise<number> {
  const { line, trouble } = outcome.prepare(granted, sent.atMs);
  try {
    if (trouble !== undefined) throw trouble;
    // Not before it is ours: what a dead command waits for must not be kept by a process that knows nothing of it.
    if (outcome.keeper !== undefined) tie(store, outcome.keeper);
  } catch (error) {
    throw await givenBack(store, outcome.claim, error instanceof Error ? error.message : String(error));
  }
  io.print(line);
  return EXIT.ok;
}

function tie(store: OpenStore, { pid, startTime }: Keeper): void {
  if (startTimeOf(pid) !== startTime) throw new Error(`process ${pid}, which was to keep it, has ended`);
  store.tie([pid]);
}

/** Nobody could renew or release what is noted nowhere, and nobody wants what a dead process was to keep. */
async function givenBack({ backend }: OpenStore, claim: Claim, said: string): Promise<Error> {
  try {
    await insist(() => backend.release(claim));
  } catch (error) {
    const text = `Lock ${quote(claim.name)} was acquired, but ${said}, and giving it back failed too: it stays taken until its ttl is over.`;
    return new LockBackendError(backend.name, claim.name, text, { cause: error });
  }
  return new UsageError(`${said}, so the lock was given back`, "acquire");
}

async function refusal({ locks }: OpenStore, name: string, waitMs: number): Promise<LockTimeoutError> {
  const { held } = await locks.query(name);
  return new LockTimeoutError(
    name,
    waitMs,
    held.filter((one) => one.name === name),
  );
}
