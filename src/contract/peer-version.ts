/**
 * The versions of optional peers. An app may have another major version of a package for its own use, so the version is checked where
 * Holdfast loads the package, with an error that says what to install.
 */
import { createRequire } from "node:module";
import { join } from "node:path";

/** The version that a module at `from` (its `import.meta.url`) would load. `undefined`: not installed, or unknown, as in a bundle. */
export function installedVersion(peer: string, from: string): string | undefined {
  try {
    const { version } = manifestOf(peer, createRequire(from));
    return typeof version === "string" ? version : undefined;
  } catch {
    return undefined;
  }
}

interface Manifest {
  readonly version?: unknown;
}

function manifestOf(peer: string, require: NodeJS.Require): Manifest {
  try {
    return require(`${peer}/package.json`) as Manifest;
  } catch {
    // It does not export that: it lies above what it does export.
    const file = require.resolve(peer);
    const root = file.slice(0, file.lastIndexOf(join("node_modules", peer)));
    return require(join(root, "node_modules", peer, "package.json")) as Manifest;
  }
}

/** What is wrong with that version, and what to install. `oldest`: of each supported major version, such as `["5.4.0", "6.0.0"]`. */
export function whyUnsupported(
  peer: string,
  version: string | undefined,
  oldest: readonly string[],
): string | undefined {
  if (version === undefined || oldest.some((least) => isFrom(least, version))) return undefined;
  const [newest] = (oldest.at(-1) as string).split(".");
  return `${peer} ${version} is installed, but Holdfast supports ${oldest.map((least) => `^${least}`).join(" and ")}: npm install ${peer}@${newest}`;
}

/** As `^least` in package.json. */
function isFrom(least: string, version: string): boolean {
  const [wanted, given] = [numbersOf(least), numbersOf(version)];
  if (wanted[0] !== given[0]) return false;
  const differs = wanted.findIndex((part, at) => part !== given[at]);
  return differs < 0 || (given[differs] ?? 0) > (wanted[differs] ?? 0);
}

function numbersOf(version: string): readonly number[] {
  return version.split(/[.+-]/, 3).map(Number);
}
