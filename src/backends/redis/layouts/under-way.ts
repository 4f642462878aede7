/** What the store has not answered yet, so that a release never overtakes a request for its claim, and close() leaves nothing behind or says what. */
import type { Claim } from "../../../contract/backend.ts";
import type { Clock } from "../../../contract/clock.ts";
import { formatMs } from "../../../contract/duration.ts";
import { type LockBackendError, quote } from "../../../contract/errors.ts";
import { within } from "../../../contract/time-limit.ts";
import type { LayoutErrors } from "./errors.ts";

/** How long close() waits for answers at most. */
const CLOSE_MS = 2000;
const NAMES_SHOWN = 3;

interface Request {
  readonly name: string;
  readonly done: Promise<void>;
}

export class UnderWay {
  readonly #clock: Clock;
  readonly #errors: LayoutErrors;
  /** By the claims' ids: settles, and never rejects, when the last request for the claim is answered. */
  readonly #requests: Map<string, Request> = new Map();

  constructor(clock: Clock, errors: LayoutErrors) {
    this.#clock = clock;
    this.#errors = errors;
  }

  /** Sends a request for the claim, after the answers to those before it. */
  send<T>(claim: Claim, ask: () => Promise<T>): Promise<T> {
    const before = this.#requests.get(claim.id);
    const asked = before === undefined ? ask() : before.done.then(ask);
    const end = (): void => {
      if (this.#requests.get(claim.id) === request) this.#requests.delete(claim.id);
    };
    const request: Request = { name: claim.name, done: asked.then(end, end) };
    this.#requests.set(claim.id, request);
    return asked;
  }

  /** Waits until all is answered, within a time limit. Resolves to an error that says what may be left in the store, if anything. */
  async settled(): Promise<LockBackendError | undefined> {
    const all = Promise.all([...this.#requests.values()].map(({ done }) => done)).then(() => true);
    if (this.#requests.size === 0 || (await within(this.#clock, all, CLOSE_MS)) === true) return undefined;
    const names = [...new Set([...this.#requests.values()].map(({ name }) => name))];
    const more = names.length > NAMES_SHOWN ? ` and ${names.length - NAMES_SHOWN} more` : "";
    const locks = names.slice(0, NAMES_SHOWN).map(quote).join(", ") + more;
    const text = `closed, but Redis did not answer within ${formatMs(CLOSE_MS)}, so leases may be left there: of ${locks}. They end after their ttl`;
    return this.#errors.unknown(names[0] ?? "", text);
  }
}
