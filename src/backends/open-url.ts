/** A backend by its URL. Loaded only when a URL is given: users who make their own client do not need it. */
import { ArgumentError, got } from "../contract/argument-error.ts";
import { backendOf, BACKENDS, layoutsFor, schemeOf, SCHEMES } from "./all.ts";
import type { Backend } from "../contract/backend.ts";

/** See openBackend() in connect.ts, whose arguments these are. */
export async function openUrl(given: readonly [] | readonly [url: string]): Promise<Backend> {
  const url: unknown = given.length === 0 ? await urlByDefault() : given[0];
  if (typeof url !== "string" || url.trim() === "") {
    throw new ArgumentError(
      `Expected \`url\` to be a text such as "redis://host:6379", got ${got(url)}. For the embedded store of this machine say "file:", or leave it out.`,
    );
  }
  const name = backendOf(url);
  if (name === undefined) {
    const layouts = layoutsFor(url);
    if (layouts.length > 0) {
      throw new ArgumentError(
        `Expected \`layout\` in \`url\` to be ${layouts.join(" or ")}, or left out for Holdfast's own`,
      );
    }
    const scheme = schemeOf(url);
    // The rest of the URL may hold a password: only the scheme is repeated.
    const found = scheme === undefined ? "a text without a scheme" : `${scheme}:`;
    throw new ArgumentError(`Expected \`url\` to start with one of ${SCHEMES.join(":, ")}:, got ${found}`);
  }
  const opener = await BACKENDS[name].load();
  return await opener.openBackend(url);
}

/** Few have it in a variable, and fewer in another or in a file: who has not does not load what reads those. */
async function urlByDefault(): Promise<string> {
  const { env } = process;
  return env["HOLDFAST_URL"] === undefined ? "file:" : (await import("./url-source.ts")).defaultUrl(env);
}
