/** What lies in our directory and is not ours: never believed, never removed, and named in the error. */

const SHOWN_MAX = 60;

export class ForeignError extends Error {
  readonly path: string;

  constructor(path: string, found: string) {
    super(`${path} is not what this backend writes: ${found}`);
    this.name = "ForeignError";
    this.path = path;
  }
}

export function strangeText(path: string, text: string): ForeignError {
  return new ForeignError(path, text === "" ? "it is empty" : JSON.stringify(text.slice(0, SHOWN_MAX)));
}
