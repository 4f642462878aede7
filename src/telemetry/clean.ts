/** What others wrote, as it may be shown: printable, of bounded length, and without passwords. */
import { clipped, printable, REASON_MAX } from "../contract/foreign.ts";
import { maskSecrets } from "../contract/mask-secrets.ts";

export function clean(text: string, max: number = REASON_MAX): string {
  // Masked first: what is cut off could hide where a URL begins or ends.
  return printable(clipped(maskSecrets(text), max));
}
