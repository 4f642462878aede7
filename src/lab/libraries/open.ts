/** Opens a library by its name. Other libraries are imported only when they are played. */
import type { LockLibrary, Library, Link } from "./library.ts";
import { openHoldfast } from "./holdfast.ts";
import { openOther } from "./others.ts";

export async function openLibrary(library: Library, link: Link, holder: string): Promise<LockLibrary> {
  if (library === "holdfast") return openHoldfast(link, holder);
  return openOther(library, link);
}
