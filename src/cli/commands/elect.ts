/** `holdfast elect NAME -- command`: one of many runs the command; when it falls, another takes over. */
import type { Lease } from "../../core/api.ts";
import { ask } from "../ask-store.ts";
import type { Command } from "../command.ts";
import { EXIT } from "../exit-codes.ts";
import { LOCK_FLAGS, ownHolder } from "../lock-flags.ts";
import { openStore } from "../open-store.ts";
import { showProgress } from "../progress.ts";
import { cannotRun, runUnder } from "./run.ts";
import { runLog } from "../run/log.ts";
import { readPlan, RUN_FLAGS } from "../run/plan.ts";
import { Signals } from "../signals.ts";
import { storeUrl } from "../url.ts";

export const electCommand: Command = {
  spec: {
    name: "elect",
    summary: "Run a command on the one machine that is the leader",
    usage: ["elect NAME [FLAGS] -- COMMAND [ARGUMENTS]"],
    about: [
      "Campaigns for leadership until it is stopped. While it is the leader it runs the command; when the lease is lost, the command is ended as in `holdfast run`, and it campaigns again. When the command ends by itself, so does `elect`, with the same exit code, unless --restart is given.",
    ],
    flags: {
      ...RUN_FLAGS,
      "lock-delay": LOCK_FLAGS["lock-delay"],
      reason: LOCK_FLAGS.reason,
      meta: LOCK_FLAGS.meta,
      restart: { help: "when the command ends by itself, campaign again" },
    },
    examples: [
      ["holdfast elect scheduler -- node scheduler.js", "on every machine; it runs on one"],
      ["holdfast elect scheduler --ttl 5s --restart -- ./poll.sh", "take over in seconds, and never give up"],
    ],
    exits: ["child", "usage", "backend", "internal", "cannotExecute", "notFound", "signal"],
    completes: "lock",
    stdoutIsTheCommands: true,
  },
  async run(io, flags) {
    const plan = readPlan(io, flags, "elect");
    const log = runLog(io, flags);
    if (!("path" in plan.program)) return cannotRun(log, plan);
    const store = await openStore(io, flags);
    const signals = new Signals();
    const { name } = plan;
    const over = new AbortController();
    signals.stop.signal.addEventListener("abort", () => over.abort());
    let code: number = EXIT.ok;

    const progress = {
      name,
      holder: ownHolder(),
      waitMs: Infinity,
      query: () => ask(store, name),
      verb: "campaigning for",
    };
    const watch = (): (() => void) => (flags.has("quiet") ? () => {} : showProgress(io, progress));
    let done = watch();

    const serve = async (lease: Lease): Promise<void> => {
      done();
      const facts = { name, fence: lease.fence };
      log.detail("elected", `elected to ${name} with fence ${lease.fence}`, facts);
      const outcome = await runUnder(lease, { plan, log, signals, store, handedUrl: storeUrl(io, flags).handed });
      code = outcome.code;
      if (outcome.lost !== undefined)
        log.say("lost", `${name} (fence ${lease.fence}) was lost: ${outcome.lost}`, facts);
      else log.detail("ended", `${plan.program.name} ended with ${code}`, { ...facts, code });
      if (signals.asked || (outcome.lost === undefined && !flags.has("restart"))) over.abort();
      else done = watch();
    };
    try {
      const { wait: _wait, ...options } = plan.choice.options;
      await store.locks.elect(name, { ...options, signal: over.signal }, serve);
      return signals.exitCode ?? code;
    } finally {
      done();
      await store.close();
      signals.dispose();
    }
  },
};
