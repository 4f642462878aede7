#!/usr/bin/env node
/** The `holdfast` program: finds the command, runs it, and exits with its code. */
import { UsageError } from "./usage-error.ts";
import { COMMANDS, findCommand } from "./commands/all.ts";
import { EXIT } from "./exit-codes.ts";
import { reportFailure } from "./report-error.ts";
import { parseFlags } from "./flags.ts";
import { commandHelp, overview } from "./help.ts";
import { type Io, processIo } from "./io.ts";
import { nearest } from "./suggest.ts";
import { version } from "./commands/version.ts";

const OVERVIEW = new Set(["help", "--help", "-h"]);
const VERSION = new Set(["--version", "-V"]);

async function main(io: Io, argv: readonly string[]): Promise<number> {
  const [first, ...args] = argv;
  if (first === undefined) {
    io.note(overview(io, version(), summaries()));
    return EXIT.usage;
  }
  if (VERSION.has(first)) return runCommand(io, "version", args);
  if (OVERVIEW.has(first)) return help(io, args);
  return runCommand(io, first, args);
}

async function help(io: Io, [topic]: readonly string[]): Promise<number> {
  if (topic !== undefined && !topic.startsWith("-")) return runCommand(io, topic, ["--help"]);
  io.print(overview(io, version(), summaries()));
  return EXIT.ok;
}

async function runCommand(io: Io, name: string, args: readonly string[]): Promise<number> {
  const entry = findCommand(name);
  if (entry === undefined) throw new UsageError(unknownCommand(name));
  const command = await entry.load();
  if (typeof command === "function") return command(args, io);
  const own = args.slice(0, args.includes("--") ? args.indexOf("--") : undefined);
  if (own.includes("--help") || own.includes("-h")) {
    io.print(commandHelp(io, command.spec));
    return EXIT.ok;
  }
  const flags = parseFlags(name, command.spec.flags, args);
  const json = flags.has("json") && command.spec.stdoutIsTheCommands !== true;
  const report = { json, verbose: flags.has("verbose") };
  return command.run(io, flags).catch((error: unknown) => reportFailure(io, error, report));
}

function unknownCommand(name: string): string {
  if (name.startsWith("-")) return `the command comes first: holdfast COMMAND ${name} …`;
  const meant = nearest(name, [...COMMANDS.map((entry) => entry.name), "help"]);
  return `there is no command ${JSON.stringify(name)}${meant === undefined ? "" : `; did you mean ${meant}?`}`;
}

function summaries(): readonly (readonly [string, string])[] {
  return COMMANDS.map(({ name, summary }) => [name, summary]);
}

/** Exits once everything written has left: a pipe may still hold some of it. */
function exit(code: number): void {
  process.exitCode = code;
  process.stdout.write("", () => process.stderr.write("", () => process.exit(afterWriting(code))));
}

/** The reader of our output may stop early (`holdfast ls | head -1`): that is no error. A full disk is one. */
function afterWriting(code: number, error: NodeJS.ErrnoException | undefined = io.broken()): number {
  if (error === undefined || error.code === "EPIPE") return code;
  process.stderr.write(`holdfast: the output could not be written (${error.code ?? "unknown"})\n`);
  return EXIT.internal;
}

const io = processIo();
if (io.env["HOLDFAST_URL"] !== undefined) io.hide(io.env["HOLDFAST_URL"]);
const argv = process.argv.slice(2);
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  // A command that prints a lease has to give it back first.
  if (!io.isCareful()) process.exit(afterWriting(EXIT.ok, error));
});

main(io, argv)
  .catch((error: unknown) => reportFailure(io, error, { json: argv.includes("--json"), verbose: false }))
  .then(exit, () => process.exit(EXIT.internal));
