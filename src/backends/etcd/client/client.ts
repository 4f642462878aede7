/**
 * An etcd client: the calls that locks need, over HTTP/2, to whichever member answers.
 *
 * Answers to `range` and `txn` come through the leader, and a majority agreed to them after they were asked for. A rejection
 * with an {@link EtcdError} says by `isRefusal` whether the call was certainly not carried out; otherwise that is unknown.
 */
import type { ConnectionOptions } from "node:tls";
import { type CallOptions, Channel } from "./channel.ts";
import {
  type Alarm,
  type Member,
  readAlarms,
  readMembers,
  readStatus,
  type StatusResponse,
  writeAlarms,
} from "./cluster-messages.ts";
import { MalformedError, Writer } from "./codec.ts";
import { parseEndpoints, showEndpoint } from "./endpoints.ts";
import { EtcdError, isLeaseGone, lost } from "./errors.ts";
import { KeepAlives } from "./keep-alives.ts";
import {
  type Header,
  type RangeRequest,
  type RangeResponse,
  readRange,
  readTxn,
  type TxnRequest,
  type TxnResponse,
  writeRange,
  writeTxn,
} from "./kv-messages.ts";
import {
  type LeaseResponse,
  type LeaseTimes,
  readGrant,
  readTimeToLive,
  writeGrant,
  writeLease,
} from "./lease-messages.ts";
import type { KeyRange } from "./watch-messages.ts";
import { type WatchListener, Watches } from "./watches.ts";

export interface EtcdClientOptions {
  /** `"etcd1:2379,etcd2:2379"`, `"[::1]:2379"`. The port is 2379 by default. */
  readonly endpoints: string;
  /** Encrypts, with these options of `tls.connect()`; `true`: with Node's defaults. @default false */
  readonly tls?: ConnectionOptions | boolean | undefined;
  readonly auth?: { readonly user: string; readonly password: string } | undefined;
  /** How long a call may take, unless it says otherwise. @default 3000 */
  readonly limitMs?: number | undefined;
  /** Connected: for the first time, or again. */
  readonly connected?: ((isFirst: boolean) => void) | undefined;
}

const LIMIT_MS = 3000;
const NO_LEADER_NEEDED: CallOptions = { metadata: {} };

export class EtcdClient {
  /** For messages. */
  readonly endpoints: string;
  readonly #channel: Channel;
  readonly #keepAlives: KeepAlives;
  readonly #watches: Watches;
  readonly #limitMs: number;
  #clusterId = 0n;
  #revision = 0n;
  #calls = 0;

  constructor(options: EtcdClientOptions) {
    const { tls, auth, connected } = options;
    const endpoints = parseEndpoints(options.endpoints);
    this.endpoints = endpoints.map(showEndpoint).join(",");
    this.#limitMs = options.limitMs ?? LIMIT_MS;
    const encryption = tls === true ? {} : tls === false ? undefined : tls;
    this.#channel = new Channel({ endpoints, tls: encryption, auth, connected });
    this.#keepAlives = new KeepAlives(this.#channel);
    this.#watches = new Watches(this.#channel);
  }

  get isConnected(): boolean {
    return this.#channel.isConnected;
  }

  /** The greatest revision that any answer has shown. */
  get revision(): bigint {
    return this.#revision;
  }

  /** How many calls were made so far, without keep-alives and watches. */
  get calls(): number {
    return this.#calls;
  }

  range(request: RangeRequest, limitMs?: number): Promise<RangeResponse> {
    return this.#call("KV/Range", writeRange(request), readRange, limitMs);
  }

  async txn(request: TxnRequest, limitMs?: number): Promise<TxnResponse> {
    const { success, failure = [], rank } = request;
    const read = (bytes: Uint8Array): TxnResponse => readTxn(bytes, Math.max(success.length, failure.length));
    const response = await this.#call("KV/Txn", writeTxn(request), read, limitMs, { rank });
    const asked = response.succeeded ? success : failure;
    if (response.kvs.length === asked.length) return response;
    throw malformed(`${response.kvs.length} answers to ${asked.length} operations`);
  }

  /** `seconds` is what is asked for; what the cluster gave is in the answer. */
  grantLease(seconds: number, limitMs?: number): Promise<LeaseResponse> {
    return this.#call("Lease/LeaseGrant", writeGrant(seconds), readGrant, limitMs);
  }

  /** Removes its keys too. `false`: there was no such lease. */
  async revokeLease(id: bigint, limitMs?: number): Promise<boolean> {
    try {
      await this.#call("Lease/LeaseRevoke", writeLease(id), () => undefined, limitMs);
      return true;
    } catch (error) {
      if (isLeaseGone(error)) return false;
      throw error;
    }
  }

  /**
   * Keeps the lease alive, if the member that answers is the leader, or knows who is. The answer proves nothing by itself: see
   * `lease-trust.ts`. A ttl of 0: the member does not know the lease.
   */
  async keepAlive(id: bigint, limitMs: number = this.#limitMs): Promise<LeaseResponse> {
    const answer = await this.#keepAlives.ask(id, limitMs);
    this.#checkCluster(answer.header);
    return answer;
  }

  /** What the member says of the lease's time: for people. */
  timeToLive(id: bigint, limitMs?: number): Promise<LeaseTimes> {
    return this.#call("Lease/LeaseTimeToLive", writeLease(id), readTimeToLive, limitMs);
  }

  /**
   * Tells of keys that are deleted from `fromRevision` on. A hint, which may never come. Returns what stops it. `undefined`: from when
   * the watch begins. That is quicker where anything was written since: a member looks back for watches of the past ten times a second.
   */
  watchDeletes(range: KeyRange, fromRevision: bigint | undefined, listener: WatchListener): () => void {
    return this.#watches.add("deletes", range, fromRevision, listener);
  }

  /** Tells of keys that are written from `fromRevision` on, as watchDeletes(). */
  watchPuts(range: KeyRange, fromRevision: bigint, listener: WatchListener): () => void {
    return this.#watches.add("puts", range, fromRevision, listener);
  }

  /** How many watches there are now. */
  get watches(): number {
    return this.#watches.size;
  }

  /** What the member that we are connected to says of itself, also without a leader. */
  async status(limitMs: number = this.#limitMs): Promise<StatusResponse> {
    return this.#ask("Maintenance/Status", new Writer(), readStatus, limitMs, NO_LEADER_NEEDED);
  }

  members(limitMs: number = this.#limitMs): Promise<readonly Member[]> {
    return this.#ask("Cluster/MemberList", new Writer(), readMembers, limitMs, NO_LEADER_NEEDED);
  }

  alarms(limitMs: number = this.#limitMs): Promise<readonly Alarm[]> {
    return this.#ask("Maintenance/Alarm", writeAlarms(), readAlarms, limitMs, NO_LEADER_NEEDED);
  }

  /** Disconnects. What is in the store stays there. */
  async close(): Promise<void> {
    this.#keepAlives.close();
    this.#watches.close();
    await this.#channel.close();
  }

  async #call<T extends { readonly header: Header } | undefined>(
    method: string,
    message: Writer,
    read: (bytes: Uint8Array) => T,
    limitMs: number = this.#limitMs,
    how?: CallOptions,
  ): Promise<T> {
    const response = await this.#ask(method, message, read, limitMs, how);
    if (response !== undefined) this.#checkCluster(response.header);
    return response;
  }

  async #ask<T>(
    method: string,
    message: Writer,
    read: (bytes: Uint8Array) => T,
    limitMs: number,
    how?: CallOptions,
  ): Promise<T> {
    this.#calls++;
    const bytes = await this.#channel.call(`/etcdserverpb.${method}`, message.take(), limitMs, how);
    try {
      return read(bytes);
    } catch (error) {
      throw error instanceof MalformedError ? malformed(error.message, error) : error;
    }
  }

  /** Members of two clusters behind one list would grant one lock twice. */
  #checkCluster({ clusterId, revision }: Header): void {
    if (this.#clusterId === 0n) this.#clusterId = clusterId;
    if (clusterId !== this.#clusterId) {
      const [ours, other] = [this.#clusterId, clusterId].map((id) => id.toString(16));
      throw new EtcdError(
        "DATA_LOSS",
        `${this.endpoints}: members of two clusters, ${ours} and ${other}, answered. Name members of one cluster only`,
      );
    }
    if (revision > this.#revision) this.#revision = revision;
  }
}

function malformed(what: string, cause?: unknown): EtcdError {
  return lost(what, cause);
}
