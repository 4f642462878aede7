/** The commands, in one place. Each is loaded only when it is called, so that `run` starts fast. */
import type { CommandEntry } from "../command.ts";

export const COMMANDS: readonly CommandEntry[] = [
  {
    name: "run",
    summary: "run a command while holding a lock",
    load: async () => (await import("./run.ts")).runCommand,
  },
  {
    name: "once",
    summary: "run a command once for all that call it",
    load: async () => (await import("./once.ts")).onceCommand,
  },
  {
    name: "elect",
    summary: "run a command on the one machine that is the leader",
    load: async () => (await import("./elect.ts")).electCommand,
  },
  {
    name: "ls",
    summary: "list the locks that are held or waited for",
    load: async () => (await import("./ls.ts")).lsCommand,
  },
  {
    name: "show",
    summary: "show one lock: holders, waiters, forced releases",
    load: async () => (await import("./show.ts")).showCommand,
  },
  {
    name: "deadlocks",
    summary: "show who waits for each other",
    load: async () => (await import("./deadlocks.ts")).deadlocksCommand,
  },
  {
    name: "top",
    summary: "watch all locks, live",
    load: async () => (await import("../top/top.ts")).topCommand,
  },
  {
    name: "console",
    summary: "serve a page of all locks, live, on this machine",
    load: async () => (await import("./console.ts")).consoleCommand,
  },
  {
    name: "wait",
    summary: "wait until a lock is free, without taking it",
    load: async () => (await import("./wait.ts")).waitCommand,
  },
  {
    name: "acquire",
    summary: "take a lease that outlives this command, and print its fence",
    load: async () => (await import("./acquire.ts")).acquireCommand,
  },
  {
    name: "renew",
    summary: "give a lease from `acquire` more time",
    load: async () => (await import("./renew.ts")).renewCommand,
  },
  {
    name: "release",
    summary: "give back a lease from `acquire`, or end another holder's lease by force",
    load: async () => (await import("./release.ts")).releaseCommand,
  },
  {
    name: "doctor",
    summary: "say what this store does and does not promise",
    load: async () => (await import("../doctor/doctor.ts")).doctorCommand,
  },
  {
    name: "migrate",
    summary: "make the tables that locks in Postgres need",
    load: async () => (await import("./migrate.ts")).migrateCommand,
  },
  {
    name: "lab",
    summary: "play faults against a store, and see what holds",
    load: async () => (await import("../../lab/command.ts")).labCommand,
  },
  {
    name: "completion",
    summary: "print completions for bash, zsh or fish",
    load: async () => (await import("./completion.ts")).completionOf(COMMANDS),
  },
  {
    name: "version",
    summary: "print the version",
    load: async () => (await import("./version.ts")).versionCommand,
  },
];

export function findCommand(name: string): CommandEntry | undefined {
  return COMMANDS.find((entry) => entry.name === name);
}
