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

/** Wrong usage: its message is for the person at the prompt, and nothing has been done. */
export class UsageError extends Error {
  override readonly name = "UsageError";
  /** Whose `--help` helps. */
  readonly command: string | undefined;

  constructor(message: string, command?: string) {
    super(message);
    this.command = command;
  }
}
