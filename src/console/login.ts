/** The login of `holdfast console`: a token that is printed once, and a cookie for who has it. */
import { createHash, randomBytes } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { isSame } from "./guard.ts";
import { readBody, RefusedError } from "./http.ts";

/**
 * Browsers share cookies among the ports of a name, and those of several machines are all 127.0.0.1 behind `ssh -L`: so each console has a
 * name of its own, and the same when it is started again.
 */
export function cookieName(hostname: string, port: number): string {
  return `holdfast_console_${createHash("sha256").update(`${hostname} ${port}`).digest("hex").slice(0, 16)}`;
}

export class Login {
  readonly token: string = randomBytes(32).toString("base64url");
  readonly #cookie: string = randomBytes(32).toString("base64url");
  readonly #name: string;

  /** `name`: of the cookie. */
  constructor(name: string) {
    this.#name = name;
  }

  /** Who has the cookie; or, for scripts, the token itself. */
  isKnown({ headers }: IncomingMessage): boolean {
    const bearer = /^Bearer ([\w-]+)$/.exec(headers.authorization ?? "")?.[1];
    if (bearer !== undefined) return isSame(bearer, this.token);
    const cookies = (headers.cookie ?? "").split(";").map((pair) => pair.trim());
    return cookies.some((pair) => isSame(pair, `${this.#name}=${this.#cookie}`));
  }

  /** The token comes in a body, so that no log has it. */
  async accept(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { token } = await readBody(request);
    if (typeof token !== "string" || !isSame(token, this.token))
      throw new RefusedError(401, "login", "This is not the token that was printed.");
    response.setHeader("set-cookie", `${this.#name}=${this.#cookie}; HttpOnly; SameSite=Strict; Path=/`);
  }
}
