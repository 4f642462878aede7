/** The parts of `pg` and of postgres.js that are used, by structure: a pool, a client, or anything that looks like them. */

export interface PgResult {
  // oxlint-disable-next-line typescript/no-explicit-any -- pg types its rows so; everything read is checked
  readonly rows: any[];
}

export interface PgNotification {
  readonly channel: string;
  readonly payload?: string | undefined;
}

// oxlint-disable-next-line typescript/no-explicit-any -- as Node types it: what an event carries is checked where it is read
type Listener = (news: any) => void;

/** `pg.Client`, connected. */
export interface PgClient {
  query(text: string, values?: unknown[]): Promise<PgResult>;
  on(event: "error" | "end" | "notification", listener: Listener): unknown;
  removeListener(event: "error" | "end" | "notification", listener: Listener): unknown;
}

/** `pg.Pool`. */
export interface PgPool {
  connect(): Promise<PgPoolClient>;
  readonly totalCount: number;
}

export interface PgPoolClient extends PgClient {
  release(destroy?: Error | boolean): void;
}

/** What `postgres()` of postgres.js returns. */
export interface PostgresJs {
  unsafe(text: string, values?: never[], options?: { readonly prepare?: boolean }): PromiseLike<PostgresJsRows>;
  listen(
    channel: string,
    heard: (payload: string) => void,
    listening?: () => void,
  ): PromiseLike<{ unlisten(): Promise<unknown> }>;
  readonly options: { readonly max: number };
}

export interface PostgresJsRows extends Iterable<unknown> {
  readonly state?: { readonly pid?: number | null } | undefined;
}

export type PostgresClient = PgPool | PgClient | PostgresJs;

interface Fields {
  readonly [field: string]: unknown;
}

export function isPool(client: unknown): client is PgPool {
  const { connect, totalCount, query } = fieldsOf(client);
  return typeof connect === "function" && typeof query === "function" && typeof totalCount === "number";
}

export function isPostgresJs(client: unknown): client is PostgresJs {
  const { unsafe, listen, options } = fieldsOf(client);
  return (
    typeof client === "function" && typeof unsafe === "function" && typeof listen === "function" && Boolean(options)
  );
}

export function isClient(client: unknown): client is PgClient {
  const { query, on, removeListener } = fieldsOf(client);
  return typeof query === "function" && typeof on === "function" && typeof removeListener === "function";
}

/** The `sql` that `begin()` and `reserve()` of postgres.js hand out: one connection, mostly in a transaction. */
export function isScoped(client: unknown): boolean {
  const { savepoint, release } = fieldsOf(client);
  return typeof client === "function" && (typeof savepoint === "function" || typeof release === "function");
}

function fieldsOf(value: unknown): Fields {
  return (typeof value === "object" && value !== null) || typeof value === "function"
    ? (value as unknown as Fields)
    : {};
}

/** The column `answer` of each row: the first one, because postgres.js may give columns other names. */
export function answersOf(rows: Iterable<unknown>): (string | null)[] {
  return Array.from(rows, (row) => {
    const [answer] = Object.values(fieldsOf(row));
    if (answer === null || typeof answer === "string") return answer;
    throw new Error("unexpected reply: a row without an answer");
  });
}
