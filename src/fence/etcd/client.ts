/** The part of an etcd client that the guard uses, by structure: the client of `holdfast/etcd`, or an adapter with its shape. */

/** One write of a transaction. `lease`: the key ends with it; 0 for none. */
export type EtcdWrite =
  | { readonly put: { readonly key: Uint8Array; readonly value: Uint8Array; readonly lease: bigint } }
  | { readonly remove: { readonly key: Uint8Array } };

export interface EtcdKey {
  readonly key: Uint8Array;
  readonly value: Uint8Array;
  readonly createRevision: bigint;
  readonly modRevision: bigint;
}

export interface EtcdLike {
  /** Linearizable: not from the memory of one member. All keys from `key` up to `end`, or `key` alone. */
  range(request: {
    readonly key: Uint8Array;
    readonly end?: Uint8Array | undefined;
  }): Promise<{ readonly kvs: readonly EtcdKey[] }>;
  /** All or nothing. The modification revision of a key that does not exist is 0. */
  txn(request: {
    readonly when: readonly { readonly key: Uint8Array; readonly modRevision: bigint }[];
    readonly success: readonly EtcdWrite[];
  }): Promise<{ readonly succeeded: boolean }>;
}
