/** connect(): locks by URL. */
import { backendOf, BACKENDS, schemeOf, SCHEMES } from "./backends/all.ts";
import type { Locks, LocksOptions } from "./core/api.ts";
import type { Backend } from "./contract/backend.ts";
import { checkCreateOptions } from "./core/check.ts";
import { got } from "./contract/show-value.ts";
import { createLocks } from "./core/locks.ts";

/**
 * Opens a backend by URL. Without one: `HOLDFAST_URL`, else `file:`, the embedded backend of this machine. Only a missing
 * argument means that: one that is empty or undefined is a mistake, and would silently be a lock of this machine alone.
 */
export async function openBackend(...given: readonly [] | readonly [url: string]): Promise<Backend> {
  const url: unknown = given.length === 0 ? await urlByDefault() : given[0];
  if (typeof url !== "string" || url.trim() === "") {
    throw new TypeError(
      `Expected \`url\` to be a text such as "redis://host:6379", got ${got(url)}. For the embedded store of this machine say "file:", or leave it out.`,
    );
  }
  const name = backendOf(url);
  if (name === undefined) {
    const scheme = schemeOf(url);
    // The rest of the URL may hold a password: only the scheme is repeated.
    const found = scheme === undefined ? "a text without a scheme" : `${scheme}:`;
    throw new TypeError(`Expected \`url\` to start with one of ${SCHEMES.join(":, ")}:, got ${found}`);
  }
  const opener = await BACKENDS[name].load();
  return await opener.openBackend(url);
}

/** Few have it in a variable, and fewer in another or in a file: who has not does not load what reads those. */
async function urlByDefault(): Promise<string> {
  const { env } = process;
  return env["HOLDFAST_URL"] === undefined ? "file:" : (await import("./backends/url-source.ts")).defaultUrl(env);
}

/** Opens the locks that `HOLDFAST_URL` names, or the embedded ones of this machine. */
export function connect(): Promise<Locks>;
/** The same, with defaults. */
export function connect(defaults: LocksOptions): Promise<Locks>;
/** Opens locks by URL. Closing them closes the connection that was opened for them. */
export function connect(url: string, defaults?: LocksOptions): Promise<Locks>;
export async function connect(...given: readonly unknown[]): Promise<Locks> {
  const [first, second] = given;
  const byDefault = given.length === 0 || (given.length === 1 && typeof first === "object" && first !== null);
  const defaults = (byDefault ? first : second) as LocksOptions | undefined;
  // Wrong ones fail before anything is opened.
  if (defaults !== undefined) checkCreateOptions(defaults);
  return createLocks(await (byDefault ? openBackend() : openBackend(first as string)), defaults);
}
