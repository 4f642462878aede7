/**
 * The requests to a server: each operation knows how it is written and how its answer is read.
 *
 * An answer that does not match its request is refused with a `RangeError`, which ends the connection: otherwise it could be
 * taken for a lease, or for the confirmation of one.
 */
import { type Acl, writeAcls } from "./acl.ts";
import type { Reader, Writer } from "./codec.ts";
import { toCode, ZooKeeperMultiError, type ZooKeeperErrorCode } from "./errors.ts";
import { CREATE_FLAGS, type CreateMode, OP, readStat, type Stat, STAT_CZXID_TO_OWNER } from "./protocol.ts";

export interface Operation<T> {
  readonly op: number;
  /** For messages: what was asked, of which node. */
  readonly what: string;
  write(writer: Writer): void;
  /** `zxid`: the transaction in which the answer was given, or the write itself. */
  read(reader: Reader, zxid: bigint): T;
  /** The answer where the node does not exist, for operations to which that is no error. */
  readonly absent?: { readonly answer: T } | undefined;
}

export interface Created {
  readonly path: string;
  readonly stat: Stat;
}

export interface EphemeralCreated {
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

/** One part of a multi. A `version` of -1 matches any. */
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
    read: (reader) => {
      const made = checkPath(reader.string(), path, mode);
      const stat = readStat(reader);
      return { path: made, stat: { ...stat, czxid: checkZxid(stat.czxid) } };
    },
  };
}

/** The same for an ephemeral sequential node; reads only the part of its stat that a lock needs. */
export function createEphemeral(path: string, data: Uint8Array, acl: readonly Acl[]): Operation<EphemeralCreated> {
  return {
    op: OP.create2,
    what: `create ${path}`,
    write: (writer) => writeCreate(writer, path, data, "ephemeralSequential", acl),
    read: (reader) => readEphemeralCreated(reader, path),
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
    read: (reader, zxid) => readMulti(reader, zxid, parts),
  };
}

function readEphemeralCreated(reader: Reader, asked: string): EphemeralCreated {
  const path = checkPath(reader.string(), asked, "ephemeralSequential");
  const czxid = checkZxid(reader.long());
  reader.skip(STAT_CZXID_TO_OWNER);
  return { path, czxid, sessionId: reader.long() };
}

/** The number of a transaction becomes a fence: it is above 0, and has the 63 bits that fences have. */
function checkZxid(zxid: bigint): bigint {
  if (zxid > 0n) return zxid;
  throw new RangeError(`a node that was made in transaction ${zxid}`);
}

const SEQUENCE = /^-?\d{10}$/;

/** The server adds nothing to a path but the number that it was asked for. */
function checkPath(path: string, asked: string, mode: CreateMode): string {
  const rest = path.startsWith(asked) ? path.slice(asked.length) : undefined;
  const isNumbered = mode === "ephemeralSequential" || mode === "persistentSequential";
  if (rest !== undefined && (isNumbered ? SEQUENCE.test(rest) : rest === "")) return path;
  throw new RangeError("the path of a node that we did not ask for");
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

/** As many results as there are parts, each of its kind; or, where the whole was refused, as many errors. */
function readMulti(reader: Reader, zxid: bigint, parts: readonly MultiPart[]): readonly MultiResult[] {
  const results: MultiResult[] = [];
  const errors: (ZooKeeperErrorCode | undefined)[] = [];
  for (;;) {
    const type = reader.int();
    const isDone = reader.bool();
    reader.int();
    if (isDone) break;
    const part = parts[results.length + errors.length];
    if (part === undefined) throw new RangeError("more results than parts");
    if (type === -1) errors.push(codeOf(reader.int()));
    else results.push(readResult(reader, type, zxid, part));
  }
  const isRefused = errors.length === parts.length && errors.some((error) => error !== undefined);
  if (isRefused) throw new ZooKeeperMultiError(errors);
  if (results.length !== parts.length) throw new RangeError("results that do not match the parts");
  return results;
}

function readResult(reader: Reader, type: number, zxid: bigint, part: MultiPart): MultiResult {
  if (type !== OP[part.op]) throw new RangeError(`a result of kind ${type} for ${part.op}`);
  if (part.op === "create") return { zxid: checkZxid(zxid), path: checkPath(reader.string(), part.path, part.mode) };
  return part.op === "setData" ? { zxid, stat: readStat(reader) } : { zxid };
}

function codeOf(error: number): ZooKeeperErrorCode | undefined {
  return error === 0 ? undefined : toCode(error);
}
