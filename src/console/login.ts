/** The login of `holdfast console`: a token that is printed once, and a cookie for who has it. */
import { randomBytes } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { isSame } from "./guard.ts";
import { readBody, RefusedError } from "./http.ts";

export class Login {
  readonly token: string = randomBytes(32).toString("base64url");
  readonly #cookie: string = randomBytes(32).toString("base64url");
  readonly #name: string;

  /** `name`: of the cookie. Browsers share cookies among the ports of a machine, so each console has its own. */
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

  /** The token comes in a body: neither logs nor the history of a browser have it. */
  async accept(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { token } = await readBody(request);
    if (typeof token !== "string" || !isSame(token, this.token))
      throw new RefusedError(401, "login", "This is not the token that was printed.");
    response.setHeader("set-cookie", `${this.#name}=${this.#cookie}; HttpOnly; SameSite=Strict; Path=/`);
  }
}
