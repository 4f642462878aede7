/** Opens a library by its name. Libraries other than Holdfast are imported only then: they are not installed with it. */
import type { LockLibrary, Library, Link } from "./library.ts";
import { openHoldfast } from "./holdfast.ts";

export async function openLibrary(library: Library, link: Link, holder: string): Promise<LockLibrary> {
  if (library === "holdfast") return openHoldfast(link, holder);
  const { openOther } = await import("./others.ts");
  return openOther(library, link);
}
