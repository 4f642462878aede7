/**
 * Whether a directory is ours alone: that nobody else can write to it, nor replace it or anything on the way to it. Every level
 * is looked at without following links.
 */
import { readFileSync } from "node:fs";
import { dirname, join, parse, sep } from "node:path";
import { describe, disk, type Nature } from "./disk.ts";

const OTHERS_WRITE = 0o002;
const GROUP_WRITES = 0o020;
/** In such a directory nobody can replace what belongs to somebody else: /tmp. */
const STICKY = 0o1000;
const LINKS_MAX = 40;

/** Makes the error to throw; `why` is a sentence, or more. */
export type Refuse = (why: string) => Error;

/** Throws unless nobody else can replace a directory or a link on the way to the root; what is missing will be ours. */
export function checkWay(root: string, refuse: Refuse): void {
  if (process.getuid === undefined) return;
  const rest = dirname(root).split(sep);
  let at = parse(root).root;
  let links = 0;
  // Below a directory in which anybody can make things, an owner whom we cannot name may be anybody.
  let anybody = checkParent(at, disk.nature(at), false, refuse);
  for (let name = rest.shift(); name !== undefined; name = rest.shift()) {
    if (name === "" || name === ".") continue;
    const next = join(at, name);
    const found = disk.nature(next);
    if (found === undefined) return;
    anybody = checkParent(next, found, anybody, refuse);
    if (found.kind !== "link") at = next;
    else {
      if (++links > LINKS_MAX) throw refuse(`there are too many symbolic links on the way to it (${next}).`);
      const target = disk.readlink(next);
      rest.unshift(...target.split(sep));
      if (!target.startsWith(sep)) continue;
      at = parse(target).root;
      anybody = false;
    }
  }
}

/** Returns whether anybody may make things from there on downwards. */
function checkParent(path: string, found: Nature | undefined, anybody: boolean, refuse: Refuse): boolean {
  if (found === undefined) return anybody;
  const { kind, uid, gid, mode } = found;
  if (kind !== "directory" && kind !== "link") throw refuse(`${path} is ${describe(found)}, not a directory.`);
  const me = process.getuid?.();
  // Where not even we are known, everybody unknown looks like us.
  const unknown = uid !== 0 && uid === unmappedUid();
  if (unknown && anybody)
    throw refuse(
      `${path} belongs to a user who is unknown in this user namespace, and lies where anybody can make things. Use a directory below ones that belong to this user or to root.`,
    );
  if (uid !== me && uid !== 0 && !unknown)
    throw refuse(
      `${path} belongs to uid ${uid}, who could replace what is in it; this process runs as uid ${me}. Use a directory below ones that belong to root or to this user.`,
    );
  // A group of one's own has the user's number, by the custom of most systems; root's group is root's.
  const group = gid === 0 || gid === me ? 0 : GROUP_WRITES;
  if (kind === "directory" && (mode & (OTHERS_WRITE | group)) !== 0 && (mode & STICKY) === 0)
    throw refuse(
      `others may write to ${path} (mode ${mode.toString(8)}), and so replace what is in it. Take that right away (chmod go-w), or use another directory.`,
    );
  return anybody || (kind === "directory" && (mode & (OTHERS_WRITE | group)) !== 0);
}

/** The root, and each directory in it. */
export function checkOwn(root: string, path: string, refuse: Refuse): void {
  const found = disk.nature(path);
  const it = path === root ? "it" : path;
  if (found === undefined) throw Object.assign(new Error(`${path} vanished`), { code: "ENOENT" });
  if (found.kind === "link")
    throw refuse(
      `${it} is a symbolic link to ${disk.readlink(path)}. Name the directory itself, the same for all processes.`,
    );
  if (found.kind !== "directory") throw refuse(`${it} is not a directory.`);
  const me = process.getuid?.();
  if (me === undefined) return;
  if (found.uid !== me)
    throw refuse(
      `${it} belongs to uid ${found.uid}, but this process runs as uid ${me}. Each user needs a directory of its own.`,
    );
  if ((found.mode & (OTHERS_WRITE | GROUP_WRITES)) !== 0)
    throw refuse(
      `others may write to ${path === root ? "it" : it} (mode ${found.mode.toString(8)}). Use a directory of its own with mode 700.`,
    );
}

let unmapped: number | undefined;

/** Who owns what belongs to nobody in our user namespace: the root of the machine, seen from inside. -1: all are known here. */
function unmappedUid(): number {
  unmapped ??= readUnmappedUid();
  return unmapped;
}

function readUnmappedUid(): number {
  try {
    const everybody = /^\s*0\s+0\s+4294967295\s*$/.test(readFileSync("/proc/self/uid_map", "latin1"));
    return everybody ? -1 : Number(readFileSync("/proc/sys/kernel/overflowuid", "latin1"));
  } catch {
    return -1;
  }
}
