/** The messages about leases. */
import { MalformedError, Reader, Writer } from "./codec.ts";
import { type Header, NO_HEADER, readHeader } from "./kv-messages.ts";

export interface LeaseResponse {
  readonly header: Header;
  readonly id: bigint;
  /** Seconds. After a grant: as the server gave it; later: what is left of it. 0: there is no such lease. */
  readonly ttl: number;
}

export interface LeaseTimes extends LeaseResponse {
  /** Seconds, as granted. */
  readonly grantedTtl: number;
}

/** A hundred years: a number that is greater is no duration. */
const SECONDS_MAX = 3_200_000_000n;

export function writeGrant(seconds: number): Writer {
  return new Writer().int(1, seconds);
}

/** For LeaseRevoke, LeaseKeepAlive and LeaseTimeToLive. */
export function writeLease(id: bigint): Writer {
  return new Writer().int(1, id);
}

export function readGrant(bytes: Uint8Array): LeaseResponse {
  const lease = readLease(bytes);
  if (lease.id <= 0n || lease.ttl === 0) throw new MalformedError(`a lease ${lease.id} of ${lease.ttl} s`);
  return lease;
}

/** LeaseGrant and LeaseKeepAlive. */
export function readLease(bytes: Uint8Array): LeaseResponse {
  const reader = new Reader(bytes);
  let [header, id, ttl] = [NO_HEADER, 0n, 0];
  while (reader.next()) {
    if (reader.field === 1) header = readHeader(reader.message());
    else if (reader.field === 2) id = reader.int();
    else if (reader.field === 3) ttl = seconds(reader);
    else reader.skip();
  }
  return { header, id, ttl };
}

export function readTimeToLive(bytes: Uint8Array): LeaseTimes {
  const reader = new Reader(bytes);
  let [header, id, ttl, grantedTtl] = [NO_HEADER, 0n, 0, 0];
  while (reader.next()) {
    if (reader.field === 1) header = readHeader(reader.message());
    else if (reader.field === 2) id = reader.int();
    else if (reader.field === 3) ttl = seconds(reader);
    else if (reader.field === 4) grantedTtl = seconds(reader);
    else reader.skip();
  }
  return { header, id, ttl, grantedTtl };
}

/** -1, and 0 too, where the lease is not known or about to end. */
function seconds(reader: Reader): number {
  const value = reader.int();
  if (value > SECONDS_MAX) throw new MalformedError(`${value} s`);
  return value < 0n ? 0 : Number(value);
}
