/** The messages about the cluster itself: logging in, and what doctor asks. */
import { MalformedError, Reader, Writer } from "./codec.ts";
import { type Header, NO_HEADER, readHeader } from "./kv-messages.ts";

export interface StatusResponse {
  readonly header: Header;
  readonly version: string;
  readonly dbBytes: bigint;
  /** 0: the member knows no leader. */
  readonly leader: bigint;
  readonly errors: readonly string[];
  readonly isLearner: boolean;
}

export interface Member {
  readonly id: bigint;
  readonly name: string;
  readonly clientUrls: readonly string[];
  readonly isLearner: boolean;
}

export interface Alarm {
  readonly memberId: bigint;
  readonly kind: "nospace" | "corrupt" | "unknown";
}

const ALARMS = [undefined, "nospace", "corrupt"] as const;

export function writeAuthenticate(user: string, password: string): Writer {
  return new Writer().text(1, user).text(2, password);
}

export function readToken(bytes: Uint8Array): string {
  const reader = new Reader(bytes);
  let token = "";
  while (reader.next()) {
    if (reader.field === 2) token = reader.text();
    else reader.skip();
  }
  // It goes into a header, where anything else would be refused or worse.
  if (!/^[\x21-\x7e]{1,8192}$/.test(token)) throw new MalformedError("a token that cannot be one");
  return token;
}

export function readStatus(bytes: Uint8Array): StatusResponse {
  const reader = new Reader(bytes);
  let [header, version, dbBytes, leader, isLearner] = [NO_HEADER, "", 0n, 0n, false];
  const errors: string[] = [];
  while (reader.next()) {
    if (reader.field === 1) header = readHeader(reader.message());
    else if (reader.field === 2) version = reader.text();
    else if (reader.field === 3) dbBytes = reader.natural();
    else if (reader.field === 4) leader = reader.unsigned();
    else if (reader.field === 8) errors.push(reader.text());
    else if (reader.field === 10) isLearner = reader.bool();
    else reader.skip();
  }
  return { header, version, dbBytes, leader, errors, isLearner };
}

export function readMembers(bytes: Uint8Array): readonly Member[] {
  const reader = new Reader(bytes);
  const members: Member[] = [];
  while (reader.next()) {
    if (reader.field === 2) members.push(readMember(reader.message()));
    else reader.skip();
  }
  return members;
}

function readMember(reader: Reader): Member {
  let [id, name, isLearner] = [0n, "", false];
  const clientUrls: string[] = [];
  while (reader.next()) {
    if (reader.field === 1) id = reader.unsigned();
    else if (reader.field === 2) name = reader.text();
    else if (reader.field === 4) clientUrls.push(reader.text());
    else if (reader.field === 5) isLearner = reader.bool();
    else reader.skip();
  }
  return { id, name, clientUrls, isLearner };
}

/** Asks for all alarms of all members: the action GET is 0, and left out. */
export function writeAlarms(): Writer {
  return new Writer();
}

export function readAlarms(bytes: Uint8Array): readonly Alarm[] {
  const reader = new Reader(bytes);
  const alarms: Alarm[] = [];
  while (reader.next()) {
    if (reader.field === 2) alarms.push(readAlarm(reader.message()));
    else reader.skip();
  }
  return alarms;
}

function readAlarm(reader: Reader): Alarm {
  let [memberId, kind] = [0n, 0n];
  while (reader.next()) {
    if (reader.field === 1) memberId = reader.unsigned();
    else if (reader.field === 2) kind = reader.int();
    else reader.skip();
  }
  return { memberId, kind: ALARMS[Number(kind)] ?? "unknown" };
}
