/** Who may do what: names of hosts against rebinding, the app's own authorization, and a token against requests that another site makes. */
import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { clipped, HOLDER_MAX } from "../contract/foreign.ts";
import { RefusedError } from "./http.ts";
import type { CheckedOptions, ConsoleAction } from "./options.ts";

const CSRF_HEADER = "x-holdfast-csrf";

/** In the same time for all texts of one length. */
export function isSame(a: string, b: string): boolean {
  const [one, other] = [Buffer.from(a), Buffer.from(b)];
  return one.length === other.length && timingSafeEqual(one, other);
}

export class Guard {
  readonly #options: CheckedOptions;
  readonly #secret: Buffer = randomBytes(32);

  constructor(options: CheckedOptions) {
    this.#options = options;
  }

  /** A page of another name that resolves to this address is another site, and must not be served. */
  checkHost({ headers }: IncomingMessage): void {
    const { hosts } = this.#options;
    if (hosts === undefined) return;
    const name = (headers.host ?? "").replace(/:\d*$/, "").toLowerCase();
    if (!hosts.some((host) => host.toLowerCase() === name))
      throw new RefusedError(421, "host", "The console is not served under this name.");
  }

  /** The name of the user. Refuses where there is none. */
  async who(request: IncomingMessage, action: ConsoleAction): Promise<string> {
    const who: unknown = await this.#options.authorize(request, action);
    if (typeof who === "string" && who.trim() !== "") return clipped(who, HOLDER_MAX);
    if (who !== null && who !== undefined && who !== false && who !== "")
      throw new TypeError(
        "Expected `authorize` to return the name of the user, which is written to the audit, or null",
      );
    throw new RefusedError(403, "forbidden", "You may not do this.");
  }

  /** Each user has one. Another site can neither read it nor send a header of its own. */
  csrfOf(who: string): string {
    return createHmac("sha256", this.#secret).update(who).digest("base64url");
  }

  checkSameSite({ headers }: IncomingMessage): void {
    const { "sec-fetch-site": site, origin, host } = headers;
    // No page can set this header. It is right also behind a proxy that asks with another `Host`; without it, the origin has to be that.
    if (site === "same-origin") return;
    if (site !== undefined || (origin !== undefined && !isOf(origin, host)))
      throw new RefusedError(403, "csrf", "The request came from another site.");
  }

  checkCsrf(request: IncomingMessage, who: string): void {
    this.checkSameSite(request);
    const token = request.headers[CSRF_HEADER];
    if (typeof token !== "string" || !isSame(token, this.csrfOf(who)))
      throw new RefusedError(403, "csrf", "The request has no valid token. Load the page again.");
  }
}

function isOf(origin: string, host: string | undefined): boolean {
  try {
    return new URL(origin).host === host;
  } catch {
    // "null", or what no browser sends.
    return false;
  }
}
