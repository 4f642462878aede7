/** `holdfast once NAME --keep 1h -- command`: of all that call it one runs the command, and the others exit as that one did. */
import type { Lease, OnceCodec } from "../../core/api.ts";
import { OUTCOME_KEEP_MAX_MS, OUTCOME_KEEP_MIN_MS } from "../../contract/claim.ts";
import { isA, LockLostError, LockOutcomeError } from "../../contract/errors.ts";
import { formatMs } from "../../contract/duration.ts";
import type { Command } from "../command.ts";
import { EXIT } from "../exit-codes.ts";
import type { Flags } from "../flags.ts";
import type { Io } from "../io.ts";
import { LOCK_FLAGS, WAIT_FLAGS } from "../lock-flags.ts";
import type { OpenStore } from "../open-store.ts";
import { type Log, runLog } from "../run/log.ts";
import { type Plan, readPlan, RUN_FLAGS } from "../run/plan.ts";
import type { Signals } from "../signals.ts";
import { UsageError } from "../usage-error.ts";
import { cannotRun, notAcquired, runUnder, waitsForItself, whileWaiting, withSignals } from "./run.ts";

const KEEP = { minMs: OUTCOME_KEEP_MIN_MS, maxMs: OUTCOME_KEEP_MAX_MS };
const FAILED = "CommandFailed";
/** Of a failure: any program may have written it. */
const EXIT_WORD = /^EXIT_([1-9]\d?|1\d\d|2[0-4]\d|25[0-5])$/u;
/** It was done, and what came of it could not be kept. */
const NO_VALUE = "x";

export const onceCommand: Command = {
  spec: {
    name: "once",
    summary: "Run a command once for all that call it",
    usage: ["once NAME --keep DURATION [FLAGS] -- COMMAND [ARGUMENTS]"],
    about: [
      "Of all that call it, on any machine, one runs the command, as `holdfast run` does. The others wait, and exit with 0 without running it when it has succeeded; so does everyone who calls it while that is kept. Only that it succeeded is kept, not what it printed.",
      "A command that fails frees the name, and the next one runs; with --keep-failure no process runs it for that long, and all exit with the same code. A machine that dies between the end of the command and its note in the store makes the command run again.",
    ],
    flags: {
      keep: { value: "DURATION", help: "for how long it is not run again: 1s to 366d (needed)" },
      "keep-failure": { value: "DURATION", help: "the same for a command that failed (default: the next one runs)" },
      ...WAIT_FLAGS,
      ...RUN_FLAGS,
      "lock-delay": LOCK_FLAGS["lock-delay"],
      reason: LOCK_FLAGS.reason,
      meta: LOCK_FLAGS.meta,
      "conflict-exit-code": { short: "E", value: "N", help: "exit with N instead of 75 when another one runs it" },
    },
    examples: [
      ["holdfast once migrate-v42 --keep 30d -- npm run migrate", "by the first of many deployments"],
      ['holdfast once "report-$(date +%F)" --keep 2d -- ./report.sh', "once a day, though all machines' crons fire"],
      ["holdfast once warm-up --keep 1h -n -- ./warm-up.sh", "do not wait for the one that runs it"],
    ],
    exits: ["child", "usage", "backend", "internal", "notAcquired", "lost", "cannotExecute", "notFound", "signal"],
    completes: "lock",
    stdoutIsTheCommands: true,
  },
  async run(io, flags) {
    const plan = readPlan(io, flags, "once");
    const keep = flags.durationMs("keep", KEEP);
    if (keep === undefined)
      throw new UsageError("how long does it count as done? Say it with --keep, such as --keep 1h", "once");
    const keepFailure = flags.durationMs("keep-failure", KEEP);
    const conflictCode = flags.integer("conflict-exit-code", { min: 0, max: 255 }) ?? EXIT.notAcquired;
    const log = runLog(io, flags);
    if (!("path" in plan.program)) return cannotRun(log, plan);
    if (waitsForItself(io, flags, plan, log, conflictCode)) return conflictCode;
    return await withSignals(io, flags, (parts) => {
      return runOnce(io, flags, { ...parts, plan, log, keep, keepFailure, conflictCode });
    });
  },
};

interface Runtime {
  readonly plan: Plan;
  readonly log: Log;
  readonly signals: Signals;
  readonly store: OpenStore;
  readonly handedUrl: string;
  readonly keep: number;
  readonly keepFailure: number | undefined;
  readonly conflictCode: number;
}

/** The command has failed, or was ended. What once() keeps of it are its name, its message and its code. */
class CommandFailed extends Error {
  readonly code: string;
  readonly exit: number;

  constructor(message: string, exit: number) {
    super(message);
    this.name = FAILED;
    this.code = `EXIT_${exit}`;
    this.exit = exit;
  }
}

/** Whichever process did it, and whatever came of it: that it is done is all that counts here. */
const DONE: OnceCodec<void> = { encode: () => "null", decode: () => undefined };

async function runOnce(io: Io, flags: Flags, around: Runtime): Promise<number> {
  const { plan, log, signals, store, keep, keepFailure, conflictCode } = around;
  const { name, program } = plan;
  let begin = (): void => {};
  const begun = new Promise<void>((resolve) => (begin = resolve));
  const work = async (lease: Lease): Promise<void> => {
    begin();
    const { fence } = lease;
    if (signals.exitCode !== undefined) {
      // The command never ran: nothing is kept of that, not even as a failure.
      await lease.release();
      throw new CommandFailed("it was stopped before it began", signals.exitCode);
    }
    log.detail("acquired", `holding ${name} with fence ${fence}`, { name, fence });
    const { code, lost } = await runUnder(lease, around);
    if (lost !== undefined) {
      log.say("lost", `the lease on ${name} (fence ${fence}) was lost: ${lost}`, { name, fence, code, reason: lost });
      throw new CommandFailed(`its lease was lost: ${lost}`, EXIT.lost);
    }
    log.detail("ended", `${program.name} ended with ${code}`, { name, fence, code });
    if (code !== EXIT.ok) throw new CommandFailed(`${program.name} ended with ${code}`, code);
  };
  const { mode: _mode, limit: _limit, ...options } = plan.choice.options;
  try {
    let running: ReturnType<typeof store.locks.once<void>> | undefined;
    await whileWaiting(io, flags, around, async (signal) => {
      running = store.locks.once(name, { ...options, keep, keepFailure, signal, codec: DONE }, work);
      await Promise.race([begun, running]);
    });
    const { replayed, fence, at } = await running!;
    return replayed ? done(around, fence, at) : EXIT.ok;
  } catch (error) {
    if (error instanceof CommandFailed) return error.exit;
    // A command that has succeeded, and may run again because that is not kept, is reported also after a signal.
    if (signals.exitCode !== undefined && !isA(LockLostError, error)) return signals.exitCode;
    if (isA(LockOutcomeError, error)) {
      const { outcome } = await store.backend.inspect(name);
      if (outcome?.fence === error.fence && outcome.value.startsWith(NO_VALUE))
        return done(around, error.fence, new Date(Date.now() - outcome.ageMs));
    }
    return failed(error, name, log) ?? notAcquired(error, log, name, conflictCode);
  }
}

function done({ plan: { name, program }, log }: Runtime, fence: bigint, at: Date): number {
  const agoMs = Math.max(0, Date.now() - at.getTime());
  const message = `${name} was done ${formatMs(agoMs)} ago (fence ${fence}), so ${program.name} was not run`;
  log.say("done", message, { name, fence, at: at.toISOString(), replayed: true });
  return EXIT.ok;
}

/** What another one's failure, or a success that was not kept, comes to. `undefined`: it is neither. */
function failed(error: unknown, name: string, log: Log): number | undefined {
  if (isA(LockLostError, error)) {
    const message = `the command has succeeded, but that is not kept, so that it may run again: ${error.message}`;
    log.say("lost", message, { name, fence: error.fence, reason: error.reason });
    return EXIT.lost;
  }
  const { cause, message, name: kind, code } = error as Error & { readonly code?: unknown };
  if (!isA(LockOutcomeError, cause)) return undefined;
  const exit = kind === FAILED ? EXIT_WORD.exec(String(code))?.[1] : undefined;
  log.say("failed", `${name} has failed, and that is kept (fence ${cause.fence}): ${message}`, {
    name,
    fence: cause.fence,
  });
  return exit === undefined ? EXIT.no : Number(exit);
}
