/** The warden alone, with timers that fire early: it ends the command all the same. */
import { spawn } from "node:child_process";
import { dirname, join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import type { WardenOrder } from "../../src/cli/run/warden-process.ts";
import { machineMs } from "../../src/contract/machine-clock.ts";
import { newMarks } from "../../src/cli/run/new-marks.ts";
import { startTimeOf } from "../../src/cli/run/processes.ts";
import { isRunning, SHIPPED, until } from "./harness.ts";

/** As libuv may do by a fraction of a millisecond. */
const EARLY = `const real = setTimeout; globalThis.setTimeout = (f, ms, ...rest) => real(f, Math.max(0, ms - 20), ...rest);`;

test("S103: a deadline whose timer fires a moment early is not missed, though holdfast says nothing more", async () => {
  const command = spawn("sleep", ["1000"], { detached: true, stdio: "ignore" });
  const program = join(dirname(SHIPPED), "run", "warden-process.js");
  const warden = spawn(process.execPath, ["--import", `data:text/javascript,${encodeURIComponent(EARLY)}`, program], {
    stdio: ["pipe", "ignore", "inherit"],
  });
  onTestFinished(() => {
    command.kill("SIGKILL");
    warden.kill("SIGKILL");
  });
  const pid = command.pid as number;
  const watch = { ...newMarks(), pid, startTime: startTimeOf(pid), leads: true, session: pid, cgroup: undefined };
  const order: WardenOrder = { watch, until: machineMs() + 300 };
  warden.stdin.write(`${JSON.stringify(order)}\n`);
  await until(() => !isRunning(pid), "the command is ended at its deadline");
  expect(warden.exitCode).toBe(null);
});
