/** `holdfast acquire NAME`: takes a lease that outlives this process, for scripts of several steps. */
import { readFileSync } from "node:fs";

import type { Claim, Granted } from "../../contract/backend.ts";
import { systemChance } from "../../contract/random.ts";
import { systemClock } from "../../contract/clock.ts";
import { MAX_TTL_MS } from "../../contract/duration.ts";
import { LockBackendError, LockTimeoutError, quote } from "../../contract/errors.ts";
import { printable } from "../../contract/foreign.ts";
import { checkName, checkOptions, toClaim } from "../../core/options.ts";
import { ask } from "../ask-store.ts";
import { startTimeOf } from "../run/processes.ts";
import { forgetOldClaims, isClaimId, type Keeper, prepareClaims } from "../saved-claims.ts";
import type { Command } from "../command.ts";
import { UsageError } from "../usage-error.ts";
import { whileStoreAnswers } from "../store-reachable.ts";
import { EXIT } from "../exit-codes.ts";
import { reportFailure } from "../report-error.ts";
import type { Flags } from "../flags.ts";
import { askUntilAnswered } from "../retry.ts";
import type { Io } from "../io.ts";
import { LOCK_FLAGS, type LockChoice, ownHolder, readLockFlags, WAIT_FLAGS } from "../lock-flags.ts";
import { nameOf, type OpenStore, withLocks } from "../open-store.ts";
import { Outcome } from "../outcome.ts";
import { showProgress } from "../progress.ts";
import { seekLease, type Wanted, type Taken } from "../seek-lease.ts";
import { Signals } from "../signals.ts";

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
      "show-claim": {
        help: "with --json: print the claim too. It is a secret: with it, any process can renew and release the lease",
      },
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
    const { waitMs } = choice;
    const { signal } = signals.stop;
    try {
      const work = async (store: OpenStore): Promise<number> => {
        const note = (line: string): void => io.note(line);
        const grant = await whileStoreAnswers(
          () => ask(store, name),
          signal,
          (stop) => seek(io, flags, { store, claim, waitMs, stop, note }),
        );
        return succeed(io, store, outcome, grant);
      };
      const beforeDetached = (lease: Granted): void => void outcome.prepare(lease, systemClock.now());
      const outlives = keeper === undefined ? true : "tied";
      return await withLocks(io, flags, work, { outlives, beforeDetached, stop: signal });
    } catch (error) {
      if (signals.exitCode !== undefined) return signals.exitCode;
      if (!(error instanceof LockTimeoutError)) throw error;
      const exit = reportFailure(io, error, { json: flags.has("json"), verbose: flags.has("verbose") });
      return flags.integer("conflict-exit-code", { min: 0, max: 255 }) ?? exit;
    } finally {
      signals.dispose();
    }
  },
};

function newClaim(
  name: string,
  { options, waitMs }: LockChoice,
  id: string,
  pid: number | undefined,
  resumes: boolean,
): Claim {
  const checked = checkOptions({ ...options, renew: false }, {});
  // The shell or script that called us: the process to look for while the lease lasts.
  return { ...toClaim(id, name, ownHolder(pid ?? callerPid()), checked, waitMs > 0), resumes };
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
  // The lease of a claim may be another command's, and then it lives as long as that command's process does, and not as this one.
  if (flags.text("claim") !== undefined)
    throw new UsageError("--pid and --claim exclude each other: a lease lives by one process", "acquire");
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

/** With a progress line. */
async function seek(io: Io, flags: Flags, wanted: Wanted): Promise<Taken> {
  const { store, claim, waitMs } = wanted;
  const { name, holder } = claim;
  const progress = { name, holder, waitMs, query: () => ask(store, name), verb: "waiting for" };
  const done = flags.has("quiet") ? () => {} : showProgress(io, progress);
  try {
    return await seekLease(wanted);
  } finally {
    done();
  }
}

/** Prints the lease. From then on it does not depend on this process. */
async function succeed(io: Io, store: OpenStore, outcome: Outcome, { granted, sent }: Taken): Promise<number> {
  const { line, trouble } = outcome.prepare(granted, sent.atMs);
  try {
    if (trouble !== undefined) throw trouble;
    // Not before it is ours: what a dead command waits for must not be kept by a process that knows nothing of it.
    if (outcome.keeper !== undefined) tie(store, outcome.keeper);
  } catch (error) {
    throw await givenBack(store, outcome.claim, error instanceof Error ? error.message : String(error));
  }
  const broken = await io.deliver(line);
  if (broken === undefined) return EXIT.ok;
  // The caller will never learn of the lease.
  const { message } = await givenBack(store, outcome.claim, `the output could not be written (${broken.message})`);
  io.note(`holdfast: ${message}`);
  return EXIT.internal;
}

function tie(store: OpenStore, { pid, startTime }: Keeper): void {
  if (startTimeOf(pid) !== startTime) throw new Error(`process ${pid}, which was to keep it, has ended`);
  store.tie([pid]);
}

/**
 * A lease that is noted nowhere cannot be renewed or released, and a lease whose keeper has died is not wanted. With a claim of the
 * user's own it stays: another command may have been given the same lease before, and a caller that knows the claim can release it.
 */
async function givenBack({ backend }: OpenStore, claim: Claim, said: string): Promise<Error> {
  if (claim.resumes === true)
    return new UsageError(
      `${said}, and the lock stays held under this claim, perhaps by another command too: acquire or release it with the same --claim`,
      "acquire",
    );
  try {
    const question = { backend: backend.name, unknown: `whether ${printable(claim.name)} was given back` };
    // No caller has had it, so its minHold does not count.
    await askUntilAnswered(question, () => backend.release({ ...claim, minHoldMs: 0 }));
  } catch (error) {
    const text = `Lock ${quote(claim.name)} was acquired, but ${said}, and giving it back failed too: it stays taken until its ttl is over.`;
    return new LockBackendError(backend.name, claim.name, text, { cause: error });
  }
  return new UsageError(`${said}, so the lock was given back`, "acquire");
}
