/** postgres.js. It has a pool inside, and connects again by itself. */
import type { Clock } from "../../../contract/clock.ts";
import {
  type Connection,
  type Listening,
  type ListenEvents,
  type Reply,
  SCRIPT_MS,
  type Values,
} from "../connection.ts";
import { CALL_ALONE } from "../generated/sql.ts";
import { toTextArray } from "../records.ts";
import { within } from "./limit.ts";
import { answersOf, type PostgresJs } from "./structure.ts";

/**
 * With a parameter, as all statements here have one: postgres.js sends others before the answer to the last has come. Behind PgBouncer 1.18 in
 * transaction mode some statements were then never answered in our tests; it is not known why.
 */
const WHO_SERVES = "select pg_catalog.pg_backend_pid()::text as answer where $1::text is null";

/**
 * The user's `sql` may have a connection that was left in a transaction, which postgres.js does not tell. So the statement is run by a procedure
 * that commits: the server refuses that in a transaction (2D000).
 */
function alone(text: string, values: Values): readonly [string, Values] {
  const inArray = text.replaceAll(/\$(\d+)/gu, "$$1[$1]");
  return [CALL_ALONE, [inArray, toTextArray(values)]];
}

export class PostgresJsConnection implements Connection {
  readonly #sql: PostgresJs;
  readonly #clock: Clock;
  readonly #limitMs: number;
  readonly #end: (() => Promise<void>) | undefined;
  readonly #silent: (() => void) | undefined;
  #answeredMs = -Infinity;

  /** `end`: closes it, if it is ours. `silent`: called when no statement was answered for as long as one may take. */
  constructor(sql: PostgresJs, clock: Clock, limitMs: number, end?: () => Promise<void>, silent?: () => void) {
    this.#silent = silent;
    this.#sql = sql;
    this.#clock = clock;
    this.#limitMs = limitMs;
    this.#end = end;
  }

  ask(text: string, values: Values): Promise<Reply> {
    return this.#end === undefined ? this.read(...alone(text, values)) : this.read(text, values);
  }

  async read(text: string, values: Values): Promise<Reply> {
    const sentMs = this.#clock.now();
    // No named statements: behind a pooler the next transaction has another server connection, which does not know them.
    const asked = this.#sql.unsafe(text, values as never[], { prepare: false });
    const rows = await within(this.#clock, this.#limitMs, asked, () => {
      if (this.#answeredMs < sentMs) this.#silent?.();
    });
    this.#answeredMs = this.#clock.now();
    return { answers: answersOf(rows), sentMs };
  }

  async script(text: string): Promise<void> {
    await within(this.#clock, Math.max(SCRIPT_MS, this.#limitMs), this.#sql.unsafe(text));
  }

  async listen(channel: string, events: ListenEvents): Promise<Listening | undefined> {
    const rows = await within(this.#clock, this.#limitMs, this.#sql.unsafe(WHO_SERVES, [null] as never[]));
    const [serving] = answersOf(rows);
    if (String(rows.state?.pid) !== serving) return undefined;
    let times = 0;
    // It listens again by itself after its connection broke: what was sent meanwhile is missing, as after an end.
    const listening = (): void => void (times++ > 0 && events.ended());
    const listened = await within(
      this.#clock,
      this.#limitMs,
      this.#sql.listen(channel, (payload) => events.heard(payload), listening),
    );
    return {
      stop: () =>
        within(this.#clock, this.#limitMs, listened.unlisten()).then(
          () => undefined,
          () => undefined,
        ),
    };
  }

  async close(): Promise<void> {
    await this.#end?.();
  }
}
