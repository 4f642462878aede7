/** The error for wrong arguments on the command line. */

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
