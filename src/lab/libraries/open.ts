/** Opens a library by its name. Libraries other than Holdfast are imported only then: they are not installed with it. */
import type { Contender, Library, Link } from "./library.ts";
import { openHoldfast } from "./holdfast.ts";

export async function openContender(library: Library, link: Link, holder: string): Promise<Contender> {
  if (library === "holdfast") return openHoldfast(link, holder);
  const { openOther } = await import("./others.ts");
  return openOther(library, link);
}
