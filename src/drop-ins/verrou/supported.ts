/** Which versions of Verrou are supported. Its peer has the range `*`, so the version is checked when this is loaded. */
import { ArgumentError } from "../../contract/argument-error.ts";
import { installedVersion, whyUnsupported } from "../../contract/peer-version.ts";

export const VERROU = "@verrou/core";
/** The first with drivers of this shape that was tried. */
export const OLDEST: readonly string[] = ["0.5.0"];

/** `from`: an `import.meta.url`. One that is not found, as in a bundle, is not judged. */
export function assertSupported(from: string): void {
  const why = whyUnsupported(VERROU, installedVersion(VERROU, from), OLDEST);
  if (why !== undefined) throw new ArgumentError(why);
}
