/** What a command is: data for help and completion, and a function. */
import type { ExitEntry } from "./exit-codes.ts";
import type { Flags, FlagSpecs } from "./flags.ts";
import type { Io } from "./io.ts";

export interface CommandSpec {
  readonly name: string;
  /** One line, for the list of commands. */
  readonly summary: string;
  /** What follows `holdfast`, one line per form. */
  readonly usage: readonly string[];
  /** Paragraphs under the usage. */
  readonly about?: readonly string[] | undefined;
  readonly flags: FlagSpecs;
  readonly examples: readonly (readonly [command: string, meaning: string])[];
  readonly exits: readonly ExitEntry[];
  /** What the first argument is, so that shells can complete it. */
  readonly completes?: "lock" | readonly string[] | undefined;
  /** True: holdfast itself never writes to stdout, not even with `--json`. */
  readonly stdoutIsTheCommands?: boolean | undefined;
}

export interface Command {
  readonly spec: CommandSpec;
  /** Resolves to the exit code. */
  run(io: Io, flags: Flags): Promise<number>;
}

/** A command that parses its own arguments. */
export type Passthrough = (args: readonly string[], io: Io) => Promise<number>;

/** What is known of a command before it is loaded. */
export interface CommandEntry {
  readonly name: string;
  readonly summary: string;
  readonly load: () => Promise<Command | Passthrough>;
}
