/** What can be asked of a server: each operation knows how it is written and how its answer is read. */
import type { Reader, Writer } from "./codec.ts";
import { toCode, ZooKeeperMultiError, type ZooKeeperErrorCode } from "./errors.ts";
import {
  type Acl,
  CREATE_FLAGS,
  type CreateMode,
  OP,
  readStat,
  type Stat,
  STAT_CZXID_TO_OWNER,
  writeAcls,
} from "./protocol.ts";

export interface Operation<T> {
  readonly op: number;
  /** For messages: what was asked, of which node. */
  readonly what: string;
  write(writer: Writer): void;
  /** `zxid`: the transaction in which the answer was given, of which a write is one. */
  read(reader: Reader, zxid: bigint): T;
  /** The answer where the node does not exist, for operations to which that is no error. */
  readonly absent?: { readonly answer: T } | undefined;
}

export interface Created {
  readonly path: string;
  readonly stat: Stat;
}

export interface OwnCreated {
  readonly path: string;
  readonly czxid: bigint;
  readonly sessionId: bigint;
}

export interface NodeData {
  readonly data: Buffer;
  readonly stat: Stat;
}

export interface Children {
  readonly children: readonly string[];
  readonly stat: Stat;
}

/** One part of a multi. A `version` of -1 fits any. */
export type MultiPart =
  | { readonly op: "check"; readonly path: string; readonly version: number }
  | { readonly op: "setData"; readonly path: string; readonly data: Uint8Array; readonly version: number }
  | { readonly op: "delete"; readonly path: string; readonly version: number }
  | { readonly op: "create"; readonly path: string; readonly data: Uint8Array; readonly mode: CreateMode };

/** What a part of a successful multi brought: the path of a create, the stat of a setData. */
export interface MultiResult {
  /** The transaction that all parts are: the czxid of what was created. */
  readonly zxid: bigint;
  readonly path?: string;
  readonly stat?: Stat;
}

export function create(path: string, data: Uint8Array, mode: CreateMode, acl: readonly Acl[]): Operation<Created> {
  return {
    op: mode === "container" ? OP.createContainer : OP.create2,
    what: `create ${path}`,
    write: (writer) => writeCreate(writer, path, data, mode, acl),
    read: (reader) => ({ path: reader.string(), stat: readStat(reader) }),
  };
}

/** The same for an ephemeral sequential node, of whose stat only what a lock needs is read. */
export function createOwn(path: string, data: Uint8Array, acl: readonly Acl[]): Operation<OwnCreated> {
  return {
    op: OP.create2,
    what: `create ${path}`,
    write: (writer) => writeCreate(writer, path, data, "ephemeralSequential", acl),
    read: readOwnCreated,
  };
}

export function remove(path: string, version: number): Operation<void> {
  return {
    op: OP.delete,
    what: `delete ${path}`,
    write: (writer) => void writer.string(path).int(version),
    read: () => undefined,
  };
}

export function exists(path: string, watch: boolean): Operation<Stat | undefined> {
  return {
    op: OP.exists,
    what: `exists ${path}`,
    write: (writer) => void writer.string(path).bool(watch),
    read: readStat,
    absent: { answer: undefined },
  };
}

export function getData(path: string, watch: boolean): Operation<NodeData> {
  return {
    op: OP.getData,
    what: `getData ${path}`,
    write: (writer) => void writer.string(path).bool(watch),
    read: (reader) => ({ data: reader.buffer(), stat: readStat(reader) }),
  };
}

export function setData(path: string, data: Uint8Array, version: number): Operation<Stat> {
  return {
    op: OP.setData,
    what: `setData ${path}`,
    write: (writer) => void writer.string(path).buffer(data).int(version),
    read: readStat,
  };
}

export function getChildren(path: string, watch: boolean): Operation<Children> {
  return {
    op: OP.getChildren2,
    what: `getChildren ${path}`,
    write: (writer) => void writer.string(path).bool(watch),
    read: (reader) => ({ children: reader.strings(), stat: readStat(reader) }),
  };
}

/** The names alone. */
export function getNames(path: string): Operation<readonly string[]> {
  return {
    op: OP.getChildren,
    what: `getChildren ${path}`,
    write: (writer) => void writer.string(path).bool(false),
    read: (reader) => reader.strings(),
  };
}

/** Answers when the server we talk to has seen everything that the leader had when it was asked. */
export function sync(path: string): Operation<void> {
  return {
    op: OP.sync,
    what: `sync ${path}`,
    write: (writer) => void writer.string(path),
    read: () => undefined,
  };
}

export function closeSession(): Operation<void> {
  return { op: OP.closeSession, what: "closeSession", write: () => undefined, read: () => undefined };
}

/** All parts or none, in one transaction of the ensemble. */
export function multi(parts: readonly MultiPart[], acl: readonly Acl[]): Operation<readonly MultiResult[]> {
  return {
    op: OP.multi,
    what: "multi",
    write: (writer) => {
      for (const part of parts) writePart(writer.int(OP[part.op]).bool(false).int(-1), part, acl);
      writer.int(-1).bool(true).int(-1);
    },
    read: readMulti,
  };
}

function readOwnCreated(reader: Reader): OwnCreated {
  const path = reader.string();
  const czxid = reader.long();
  reader.skip(STAT_CZXID_TO_OWNER);
  return { path, czxid, sessionId: reader.long() };
}

function writePart(writer: Writer, part: MultiPart, acl: readonly Acl[]): void {
  switch (part.op) {
    case "check":
    case "delete":
      writer.string(part.path).int(part.version);
      break;
    case "setData":
      writer.string(part.path).buffer(part.data).int(part.version);
      break;
    case "create":
      writeCreate(writer, part.path, part.data, part.mode, acl);
      break;
  }
}

function writeCreate(writer: Writer, path: string, data: Uint8Array, mode: CreateMode, acl: readonly Acl[]): void {
  writeAcls(writer.string(path).buffer(data), acl);
  writer.int(CREATE_FLAGS[mode]);
}

function readMulti(reader: Reader, zxid: bigint): readonly MultiResult[] {
  const results: MultiResult[] = [];
  const errors: (ZooKeeperErrorCode | undefined)[] = [];
  for (;;) {
    const type = reader.int();
    const done = reader.bool();
    reader.int();
    if (done) break;
    const error = type === -1 ? reader.int() : 0;
    errors.push(error === 0 ? undefined : toCode(error));
    if (type === OP.create) results.push({ zxid, path: reader.string() });
    else if (type === OP.setData) results.push({ zxid, stat: readStat(reader) });
    else results.push({ zxid });
  }
  if (errors.some((error) => error !== undefined)) throw new ZooKeeperMultiError(errors);
  return results;
}
