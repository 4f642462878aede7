/** `pg`: a pool, or one client. */
import type { Clock } from "../../../contract/clock.ts";
import {
  type Connection,
  type Listening,
  type ListenEvents,
  OpenTransaction,
  type Reply,
  SCRIPT_MS,
  type Values,
} from "../connection.ts";
import { isRefusal } from "../errors.ts";
import { within } from "./limit.ts";
import {
  answersOf,
  type PgClient,
  type PgNotification,
  type PgPool,
  type PgPoolClient,
  type PgResult,
} from "./structure.ts";

/** How long a connection of ours may take to end. */
const END_MS = 1000;
const IDLE = "I";
const IN_TRANSACTION = "the client was in a transaction that is still open, so the answer may be rolled back";
/** For versions of pg that do not know the state of their transaction: this step wrote, so one that is still open has an id. */
const IS_OPEN = "select (pg_catalog.txid_current_if_assigned() is not null)::text as answer";
const WHO_SERVES = "select pg_catalog.pg_backend_pid()::text as answer";

const untyped = new Map<string, string>();

/**
 * The statement without the casts of its parameters. `pg` sends text that says no type, so the server reads each as the type that the function
 * has. To cast it, as other libraries need it, takes the server as long as to plan the rest of such a statement.
 */
function withoutCasts(text: string): string {
  let bare = untyped.get(text);
  if (bare === undefined)
    untyped.set(text, (bare = text.replaceAll(/(\$\d+)::text(?:::\w+(?:\[\])?)?(?=[,)])/gu, "$1")));
  return bare;
}

/**
 * One statement on one client, judged by the state in which it leaves the client. That is read when the client hears of it, in the same turn: a
 * statement that the user has sent after ours changes it with its own answer.
 */
async function askOn(client: KnowsState, clock: Clock, text: string, values: Values): Promise<Reply> {
  const sentMs = clock.now();
  const { rows, state } = await new Promise<{ rows: unknown[]; state: unknown }>((resolve, reject) => {
    client.query(withoutCasts(text), [...values], (error, result) => {
      if (error) reject(error);
      else resolve({ rows: result.rows, state: client.getTransactionStatus() });
    });
  });
  if (state !== IDLE) throw new OpenTransaction(IN_TRANSACTION);
  return { answers: answersOf(rows), sentMs };
}

/** The same with a version of pg that does not know it. Only for a client that no other uses meanwhile: the state is asked for afterwards. */
async function askAndLook(client: PgClient, clock: Clock, text: string, values: Values): Promise<Reply> {
  const sentMs = clock.now();
  const { rows } = await client.query(withoutCasts(text), [...values]);
  const open = answersOf((await client.query(IS_OPEN)).rows);
  if (open[0] !== "false") throw new OpenTransaction(IN_TRANSACTION);
  return { answers: answersOf(rows), sentMs };
}

/** A client that knows whether it is in a transaction. */
export interface KnowsState {
  query(text: string, values: unknown[], heard: (error: Error | null, result: PgResult) => void): void;
  getTransactionStatus(): unknown;
}

export function knowsState(client: unknown): client is KnowsState {
  return typeof (client as Partial<KnowsState>).getTransactionStatus === "function";
}

/** Each statement takes a client from the pool, and brings it back. */
export class PoolConnection implements Connection {
  readonly #pool: PgPool;
  readonly #clock: Clock;
  readonly #limitMs: number;
  readonly #end: (() => Promise<void>) | undefined;

  /** `end`: closes the pool, if it is ours. */
  constructor(pool: PgPool, clock: Clock, limitMs: number, end?: () => Promise<void>) {
    this.#pool = pool;
    this.#clock = clock;
    this.#limitMs = limitMs;
    this.#end = end;
  }

  ask(text: string, values: Values): Promise<Reply> {
    return this.#with((client) =>
      knowsState(client) ? askOn(client, this.#clock, text, values) : askAndLook(client, this.#clock, text, values),
    );
  }

  read(text: string, values: Values): Promise<Reply> {
    return this.ask(text, values);
  }

  script(text: string): Promise<void> {
    return this.#with(async (client) => void (await client.query(text)), Math.max(SCRIPT_MS, this.#limitMs));
  }

  async listen(channel: string, events: ListenEvents, signal?: AbortSignal): Promise<Listening | undefined> {
    // Beside the pool, so that nothing of the user's waits for a connection that is never returned.
    const { Client, options } = this.#pool as PgPool & { readonly Client?: unknown; readonly options?: unknown };
    if (typeof Client !== "function") return undefined;
    const made = new (Client as new (options: unknown) => PgClient & Connects)(options);
    const ignore = (): void => undefined;
    made.on("error", ignore);
    const end = async (): Promise<void> => {
      await within(this.#clock, END_MS, made.end()).catch(ignore);
      // One that has fallen silent would keep the process alive until the network gives it up.
      made.connection?.stream?.destroy?.();
    };
    const giveUp = (): void => void end();
    signal?.addEventListener("abort", giveUp);
    try {
      await within(this.#clock, this.#limitMs, made.connect());
      const listening = await listenOn(made, this.#clock, this.#limitMs, channel, events);
      if (listening === undefined) await end();
      return listening && { stop: () => (listening.leave(), end()) };
    } catch (error) {
      void end();
      throw error;
    } finally {
      signal?.removeEventListener("abort", giveUp);
    }
  }

  async close(): Promise<void> {
    await this.#end?.();
  }

  async #with<T>(use: (client: PgPoolClient) => Promise<T>, limitMs: number = this.#limitMs): Promise<T> {
    let isLate = false;
    const taken = this.#pool.connect().then((client) => {
      // No statement waits for it any more.
      if (isLate) client.release();
      return client;
    });
    const client = await within(this.#clock, this.#limitMs, taken, () => (isLate = true));
    let broken: unknown;
    const onError = (error: Error): void => void (broken = error);
    // A pool listens to idle clients only: without this, a server that goes away now would end this process.
    client.on("error", onError);
    try {
      return await within(this.#clock, limitMs, use(client));
    } catch (error) {
      broken ??= error;
      throw error;
    } finally {
      client.removeListener("error", onError);
      // Refused outside of a transaction, it is as good as before. After another error little is known of its state: a fresh connection is cheaper than a wrong guess.
      client.release(broken !== undefined && !(isRefusal(broken) && wasIdle(client)));
    }
  }
}

interface Connects {
  connect(): Promise<unknown>;
  end(): Promise<void>;
  /** Absent where the library is not in JavaScript. */
  readonly connection?: { readonly stream?: { destroy?(): void } };
}

/** Outside of a transaction. One that an application left in a failed transaction would fail for every later step, too. */
function wasIdle(client: PgClient): boolean {
  return knowsState(client) && client.getTransactionStatus() === IDLE;
}

const STEP = /^select (holdfast\..*\) as answer)$/su;

/**
 * The step with the setting as it was, which some steps turn off for the rest of their transaction: that may be the user's, and must be flushed
 * though the step need not be.
 */
function flushed(text: string): string {
  const found = STEP.exec(text)?.[1];
  if (found === undefined) return text;
  return `select s.answer, pg_catalog.set_config('synchronous_commit', pg_catalog.replace(s.was, 'off', 'on'), true) from (select pg_catalog.current_setting('synchronous_commit') as was, ${found}) as s`;
}

/** The last statement by client: several backends may share a client. */
const turns = new WeakMap<PgClient, Promise<unknown>>();

/** One client, which may be the user's: statements go one at a time, since pg stops accepting more. */
export class ClientConnection implements Connection {
  readonly #client: PgClient & KnowsState;
  readonly #clock: Clock;
  readonly #limitMs: number;

  constructor(client: PgClient & KnowsState, clock: Clock, limitMs: number) {
    this.#client = client;
    this.#clock = clock;
    this.#limitMs = limitMs;
  }

  ask(text: string, values: Values): Promise<Reply> {
    return this.#inTurn(() => askOn(this.#client, this.#clock, flushed(text), values));
  }

  read(text: string, values: Values): Promise<Reply> {
    return this.ask(text, values);
  }

  script(text: string): Promise<void> {
    return this.#inTurn(async () => void (await this.#client.query(text)), Math.max(SCRIPT_MS, this.#limitMs));
  }

  async listen(channel: string, events: ListenEvents): Promise<Listening | undefined> {
    const listening = await this.#inTurn(() => listenOn(this.#client, this.#clock, this.#limitMs, channel, events));
    return listening && { stop: () => this.#inTurn(() => listening.unlisten()) };
  }

  async close(): Promise<void> {
    // The client is the user's.
  }

  #inTurn<T>(use: () => Promise<T>, limitMs: number = this.#limitMs): Promise<T> {
    const turn = (turns.get(this.#client) ?? Promise.resolve()).then(use);
    turns.set(
      this.#client,
      turn.catch(() => undefined),
    );
    return within(this.#clock, limitMs, turn);
  }
}

async function listenOn(
  client: PgClient,
  clock: Clock,
  limitMs: number,
  channel: string,
  events: ListenEvents,
): Promise<{ leave(): void; unlisten(): Promise<void> } | undefined> {
  if (!(await within(clock, limitMs, isDirect(client)))) return undefined;
  const heard = (news: PgNotification): void => {
    if (news.channel === channel) events.heard(news.payload ?? "");
  };
  const ended = (): void => {
    leave();
    events.ended();
  };
  const leave = (): void => {
    client.removeListener("notification", heard);
    client.removeListener("end", ended);
    client.removeListener("error", ended);
  };
  client.on("notification", heard);
  client.on("end", ended);
  client.on("error", ended);
  // Letters, digits and underscores: we made it.
  await within(clock, limitMs, client.query(`listen "${channel}"`)).catch((error: unknown) => {
    leave();
    throw error;
  });
  return {
    leave,
    unlisten: async () => {
      leave();
      await within(clock, limitMs, client.query(`unlisten "${channel}"`)).catch(() => undefined);
    },
  };
}

/** Whether the process that the server named when we connected is the one that serves us: a pooler invents its own number. */
async function isDirect(client: PgClient): Promise<boolean> {
  const { processID } = client as { readonly processID?: unknown };
  const [serving] = answersOf((await client.query(WHO_SERVES)).rows);
  return processID !== undefined && processID !== null && String(processID as number) === serving;
}
