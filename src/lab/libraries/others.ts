/**
 * Opens the other lock libraries that `lab compare` plays. Their adapters are in the repository, in bench/lab, and not in the
 * published package: users of Holdfast need none of them.
 */
import { existsSync } from "node:fs";
import { machineMs } from "../../contract/machine-clock.ts";
import { HOST } from "../servers/scratch.ts";
import { labPassword } from "../servers/secret.ts";
import { UnavailableError } from "../unavailable-error.ts";
import type { Library, Link, LockLibrary } from "./library.ts";

type OtherLibrary = Exclude<Library, "holdfast">;

/** What bench/lab/other-libraries.mjs exports. */
interface OtherLibraries {
  readonly SETTINGS: Readonly<Record<OtherLibrary, string>>;
  missingPackages(libraries: readonly OtherLibrary[]): Promise<readonly string[]>;
  openOther(
    library: OtherLibrary,
    server: { readonly host: string; readonly ports: readonly number[]; readonly password: string; nowMs(): number },
  ): Promise<LockLibrary>;
}

/** The same from src/ and from dist/. */
const ADAPTERS = new URL("../../../bench/lab/other-libraries.mjs", import.meta.url);

async function load(): Promise<OtherLibraries> {
  if (!existsSync(ADAPTERS)) {
    throw new UnavailableError(
      "`lab compare` plays other lock libraries, and the published package does not contain what it needs for them. Clone Holdfast's repository, run `npm ci` there, and then `npx holdfast lab compare`.",
    );
  }
  return (await import(ADAPTERS.href)) as OtherLibraries;
}

/** Rejects, naming all that is missing, before any server is started for them. */
export async function checkInstalled(libraries: readonly Library[]): Promise<void> {
  const others = libraries.filter((library) => library !== "holdfast");
  if (others.length === 0) return;
  const missing = await (await load()).missingPackages(others);
  if (missing.length === 0) return;
  throw new UnavailableError(
    `These packages are not installed: ${missing.join(", ")}. To compare with them: npm install --no-save ${missing.join(" ")}`,
  );
}

export async function openOther(library: OtherLibrary, { ports }: Link): Promise<LockLibrary> {
  const adapters = await load();
  return adapters.openOther(library, { host: HOST, ports, password: labPassword(), nowMs: machineMs });
}

/** How each was set, for the line under the table. */
export async function otherSettings(): Promise<readonly string[]> {
  return Object.values((await load()).SETTINGS);
}
