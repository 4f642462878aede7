/** Says what is wrong with a URL that names no backend. Loaded when one does not: nobody else needs the words. */
import { schemeOf, SCHEMES } from "./all.ts";
import { got } from "../contract/show-value.ts";

export function wrongUrl(url: unknown): TypeError {
  if (typeof url !== "string" || url.trim() === "") {
    return new TypeError(
      `Expected \`url\` to be a text such as "redis://host:6379", got ${got(url)}. For the embedded store of this machine say "file:", or leave it out.`,
    );
  }
  const scheme = schemeOf(url);
  // The rest of the URL may hold a password: only the scheme is repeated.
  const found = scheme === undefined ? "a text without a scheme" : `${scheme}:`;
  return new TypeError(`Expected \`url\` to start with one of ${SCHEMES.join(":, ")}:, got ${found}`);
}
