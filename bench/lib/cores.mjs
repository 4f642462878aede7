/**
 * Store and client on a core each, where one client is measured. Left alone, the scheduler puts them on one core or on two,
 * and changes its mind: the same loop then costs a client 30 µs or 100, and a ratio of the two says nothing. On two cores
 * every answer is waited for asleep, as when the store is another machine.
 */
import { spawnSync } from "node:child_process";
import { availableParallelism } from "node:os";

export const STORE_CORE = 0;
export const CLIENT_CORE = 1;

/** Keeps the process, with all its threads, on one core. Without taskset(1), or with one core, it stays where it is. */
export function pin(pid, core) {
  if (process.platform !== "linux" || availableParallelism() < 2) return;
  spawnSync("taskset", ["--all-tasks", "--cpu-list", "--pid", String(core), String(pid)], { stdio: "ignore" });
}
