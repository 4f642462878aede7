/** `holdfast run NAME -- command`: the command runs while the lock is held, and never longer. */
import type { Lease } from "../../core/api.ts";
import type { Snapshot } from "../format-lock.ts";
import { LockTimeoutError } from "../../contract/errors.ts";
import { HeldLease } from "../../core/lease.ts";
import { ask } from "../ask-store.ts";
import { WardenAhead } from "../run/spare-warden.ts";
import { MARK_VARIABLE } from "../run/process-marks.ts";
import { type Outcome, supervise } from "../run/supervise.ts";
import type { Warden } from "../run/warden.ts";
import type { Command } from "../command.ts";
import { whileStoreAnswers } from "../store-reachable.ts";
import { EXIT } from "../exit-codes.ts";
import type { Flags } from "../flags.ts";
import type { Io } from "../io.ts";
import { LOCK_FLAGS, ownHolder, WAIT_FLAGS } from "../lock-flags.ts";
import { type OpenStore, openStore } from "../open-store.ts";
import { showProgress } from "../progress.ts";
import { childEnvironment, type Plan, readPlan, RUN_FLAGS } from "../run/plan.ts";
import { type Log, runLog } from "../run/log.ts";
import { Signals } from "../signals.ts";
import { storeUrl } from "../url.ts";

export const runCommand: Command = {
  spec: {
    name: "run",
    summary: "Run a command while holding a lock",
    usage: ["run NAME [FLAGS] -- COMMAND [ARGUMENTS]"],
    about: [
      "There is no shell in between, and stdin, stdout and stderr are the command's. It gets HOLDFAST_NAME, HOLDFAST_FENCE, HOLDFAST_DEADLINE (ms since 1970; renewals move the real one), HOLDFAST_HOLDER and HOLDFAST_URL.",
      "If the lease cannot be renewed, the command gets SIGTERM at the deadline − grace and SIGKILL at the deadline, with everything it started: it is dead before another process may start.",
    ],
    flags: {
      ...WAIT_FLAGS,
      ...RUN_FLAGS,
      ...LOCK_FLAGS,
      "conflict-exit-code": { short: "E", value: "N", help: "exit with N instead of 75 when not acquired" },
    },
    examples: [
      ['holdfast run hello -- echo "mine alone"', "one at a time on this machine"],
      ["holdfast run migrate --wait 5m -- npx prisma migrate deploy", "wait up to five minutes"],
      ["holdfast run nightly -n --min-hold 10m -- ./report.sh", "once, though all machines' crons fire"],
      ["holdfast run api --limit 3 -- ./import.sh", "at most three at once"],
      ["holdfast run catalog -s -- ./read.sh", "readers together, writers alone"],
      ["holdfast run x -E 1 -n -- ./job.sh", "exit 1 when busy, as flock does"],
    ],
    exits: ["child", "usage", "backend", "internal", "notAcquired", "lost", "cannotExecute", "notFound", "signal"],
    completes: "lock",
    stdoutIsTheCommands: true,
  },
  async run(io, flags) {
    const plan = readPlan(io, flags, "run");
    const conflictCode = flags.integer("conflict-exit-code", { min: 0, max: 255 }) ?? EXIT.notAcquired;
    const log = runLog(io, flags);
    if (!("path" in plan.program)) return cannotRun(log, plan);
    if (waitsForItself(io, flags, plan, log, conflictCode)) return conflictCode;
    return await withSignals(io, flags, (parts) => acquireAndRun(io, flags, { ...parts, plan, log, conflictCode }));
  },
};

/** Opens the store for one command, and closes it. A signal is answered for as long as that lasts. Shared with `once`. */
export async function withSignals(
  io: Io,
  flags: Flags,
  work: (parts: Pick<Runtime, "signals" | "store" | "handedUrl">) => Promise<number>,
): Promise<number> {
  const signals = new Signals();
  try {
    const store = await openStore(io, flags, { stop: signals.stop.signal });
    try {
      return await work({ signals, store, handedUrl: storeUrl(io, flags).handed });
    } finally {
      await store.close();
    }
  } catch (error) {
    if (signals.exitCode !== undefined) return signals.exitCode;
    throw error;
  } finally {
    signals.dispose();
  }
}

/** The `run` around us keeps the lock until we have ended. Says so. */
export function waitsForItself(
  { env, ...io }: Io,
  flags: Flags,
  { name, choice: { options } }: Plan,
  log: Log,
  exit: number,
): boolean {
  if (env[MARK_VARIABLE] === undefined || env["HOLDFAST_NAME"] !== name) return false;
  const { url, handed } = storeUrl({ env, ...io }, flags);
  const isSameStore = env["HOLDFAST_URL"] === url || env["HOLDFAST_URL"] === handed;
  const isAlone = options.mode === "exclusive" && options.limit === 1;
  if (!isSameStore || !isAlone) return false;
  const message = `this already runs under ${name} (fence ${env["HOLDFAST_FENCE"]}), and would wait for itself`;
  log.say("not-acquired", message, { name, exit });
  return true;
}

interface Runtime {
  readonly plan: Plan;
  readonly log: Log;
  readonly signals: Signals;
  readonly store: OpenStore;
  /** What the command gets as HOLDFAST_URL. */
  readonly handedUrl: string;
  readonly conflictCode: number;
}

async function acquireAndRun(io: Io, flags: Flags, around: Runtime): Promise<number> {
  const { log, plan, signals, store, conflictCode } = around;
  // Only where it costs nothing to ask who is next.
  const ahead =
    store.backend.name === "file" ? new WardenAhead(plan.name, ownHolder(), () => ask(store, plan.name)) : undefined;
  let lease: Lease;
  try {
    lease = await waitForLease(io, flags, around);
  } catch (error) {
    ahead?.dismiss();
    return notAcquired(error, log, plan.name, conflictCode);
  }
  log.detail("acquired", `holding ${plan.name} with fence ${lease.fence}`, { name: plan.name, fence: lease.fence });
  if (signals.exitCode !== undefined) {
    ahead?.dismiss();
    // The command never ran, so no minHold is due.
    if (lease instanceof HeldLease) lease.discard();
    await lease.release();
    return signals.exitCode;
  }
  const outcome = await runUnder(lease, around, ahead?.take());
  const released = outcome.lost === undefined ? await lease.release() : "lost";
  return conclude(log, plan, lease, outcome, released);
}

async function waitForLease(io: Io, flags: Flags, around: Runtime): Promise<Lease> {
  const { name, choice } = around.plan;
  return await whileWaiting(io, flags, around, (signal) =>
    around.store.locks.acquire(name, { ...choice.options, signal }),
  );
}

/** Shows how the waiting goes, and ends it when the store never answers. Shared with `once`. */
export async function whileWaiting<T>(
  io: Io,
  flags: Flags,
  { plan: { name, choice }, signals, store }: Pick<Runtime, "plan" | "signals" | "store">,
  wait: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const query = (): Promise<Snapshot> => ask(store, name);
  const { waitMs } = choice;
  const isSilent = flags.has("quiet") || flags.has("json");
  const progress = { name, holder: ownHolder(), waitMs, query, verb: "waiting for" };
  const done = isSilent ? () => {} : showProgress(io, progress);
  try {
    return await whileStoreAnswers(query, signals.stop.signal, wait);
  } finally {
    done();
  }
}

/** What the waiting came to where the lock was not free in time. Another error is thrown on. */
export function notAcquired(error: unknown, log: Log, name: string, exit: number): number {
  if (!(error instanceof LockTimeoutError)) throw error;
  log.say("not-acquired", error.message, { name, waitedMs: Math.round(error.waitedMs), exit });
  return exit;
}

/** Runs the command once under a lease. Shared with `elect` and `once`. */
export async function runUnder(
  lease: Lease,
  { plan, log, signals, store, handedUrl }: Omit<Runtime, "conflictCode">,
  warden?: Warden,
): Promise<Outcome> {
  if (!("path" in plan.program)) throw new Error("the program was not found");
  try {
    return await supervise({
      path: plan.program.path,
      args: plan.args,
      env: childEnvironment(process.env, plan, lease, handedUrl),
      ownGroup: !process.stdin.isTTY,
      lease,
      warden,
      ttlMs: plan.choice.ttlMs,
      graceMs: plan.graceMs,
      maxHoldMs: plan.maxHoldMs,
      tie: (pids) => store.tie(pids),
      note: (line) => log.say("note", line, {}),
      running: (child) => signals.forwardTo((signal) => child.forward(signal)),
    });
  } finally {
    signals.forwardTo(undefined);
  }
}

function conclude(log: Log, plan: Plan, lease: Lease, outcome: Outcome, released: string): number {
  const facts = { name: plan.name, fence: lease.fence, code: outcome.code };
  if (outcome.lost !== undefined || released === "lost") {
    const reason = outcome.lost ?? "it had ended before the command did";
    log.say("lost", `the lease on ${plan.name} (fence ${lease.fence}) was lost: ${reason}`, { ...facts, reason });
    return EXIT.lost;
  }
  if (released === "unknown") {
    log.say(
      "release-unknown",
      `the store did not confirm the release of ${plan.name}: it frees itself when its ttl is over`,
      facts,
    );
  }
  log.detail("ended", `${plan.program.name} ended with ${outcome.code}`, facts);
  return outcome.code;
}

export function cannotRun(log: Log, { program }: Plan): number {
  const missing = "problem" in program && program.problem === "missing";
  const exit = missing ? EXIT.notFound : EXIT.cannotExecute;
  const message = missing ? `${program.name}: command not found` : `${program.name}: cannot be executed`;
  log.say("cannot-run", message, { command: program.name, exit });
  return exit;
}
