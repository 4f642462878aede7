/** The part of a ZooKeeper client that the guard uses, by structure: the client of `holdfast/zookeeper`, or an adapter with its shape. */

/** One part of a transaction; a `version` of -1 matches any. */
export type ZooKeeperPart =
  | { readonly op: "check"; readonly path: string; readonly version: number }
  | { readonly op: "setData"; readonly path: string; readonly data: Uint8Array; readonly version: number }
  | { readonly op: "delete"; readonly path: string; readonly version: number }
  | {
      readonly op: "create";
      readonly path: string;
      readonly data: Uint8Array;
      readonly mode: "persistent" | "ephemeral";
    };

export interface ZooKeeperLike<R = unknown> {
  getData(path: string): Promise<{ readonly data: Uint8Array; readonly stat: { readonly version: number } }>;
  getChildren(path: string): Promise<{ readonly children: readonly string[] }>;
  exists(path: string): Promise<{ readonly czxid: bigint } | undefined>;
  makePath(path: string, mode: "persistent"): Promise<void>;
  sync(path: string): Promise<void>;
  /** All or nothing. Its rejection says in `errors` what was wrong with each part. */
  multi(parts: readonly ZooKeeperPart[]): Promise<readonly R[]>;
}

/** The error of the first part of a refused transaction, which is the guard's own. `undefined`: that part was fine, or the error is another one. */
export function firstPartError(error: unknown): unknown {
  return error instanceof Error && "errors" in error && Array.isArray(error.errors) ? error.errors[0] : undefined;
}

export function isMissing(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "NONODE";
}
