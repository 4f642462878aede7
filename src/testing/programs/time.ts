/** What time does to a process: it waits, stands still with all others or alone, sleeps with its machine, or has its wall clock set. */
import type { Step } from "./program.ts";
import type { Client, Stage } from "./stage.ts";

/** A shorter sleep cannot be distinguished from drift: see docs/concepts.md. */
const SLEEP_LEAST_MS = 2500;

export function passTime(
  stage: Stage,
  client: Client,
  { do: what, ms }: Extract<Step, { readonly do: "sleep" | "block" | "pause" | "suspend" | "wall" }>,
): Promise<void> | undefined {
  const { process } = client;
  const { clock } = stage;
  if (what === "sleep") return process.sleep(ms);
  stage.say(() => `${client.name}: ${what} ${ms} ms`);
  if (what === "block") {
    clock.block(ms);
    stage.blockedMs = stage.nowMs;
    stage.blockedTurn = stage.turn;
    return undefined;
  }
  client.dozed ||= what !== "pause";
  if (what === "wall") {
    process.stepWall(Math.max(0, ms));
    return undefined;
  }
  // Between two turns: nothing of a machine runs in its sleep. What left in the middle of it would see only the rest, and
  // of a long sleep that may be too little to be distinguished from drift.
  clock.setTimer(() => {
    // A process that stands still already does so for as long as it was meant to.
    if (!process.running) return;
    if (what === "pause") process.pause();
    else process.suspend();
    clock.setTimer(() => process.resume(), what === "suspend" ? Math.max(SLEEP_LEAST_MS, ms) : ms);
  }, 0);
  return process.sleep(0);
}
