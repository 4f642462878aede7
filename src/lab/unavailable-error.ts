/** What the lab needs is not on this machine: the message says what to install. The command exits with 69. */

export class UnavailableError extends Error {
  override readonly name = "UnavailableError";
}
