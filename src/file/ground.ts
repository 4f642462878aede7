/**
 * The ground that locks stand on: whether the directory is ours alone, and making it. Whoever may replace it, or anything on
 * the way to it, can let two hold one lock; and what lies in it is removed in time. So a directory with anything in it is
 * only used if our marker says that it was made for locks, and every level is looked at without following links.
 */
import { dirname, join, parse, sep } from "node:path";
import { readFileSync } from "node:fs";
import { codeOf, createFile, describe, disk, type Nature, tryMkdir } from "./disk.ts";
import { FORGET_MS } from "./numbers.ts";
import { type Place, unsuitable } from "./place.ts";

const MARKER_START = "holdfast 1";
const MARKER = `${MARKER_START}\nThis directory belongs to Holdfast, which makes and removes what is in it: docs/backends/file.md.\n`;
const OTHERS_WRITE = 0o002;
const GROUP_WRITES = 0o020;
/** In such a directory nobody can replace what belongs to somebody else: /tmp. */
const STICKY = 0o1000;
const LINKS_MAX = 40;
/** In the root: when a janitor last began. */
const STAMP = "cleaned";

/**
 * Makes the directories that are missing, and throws unless all are ours alone. At the start, and `again` whenever one has
 * vanished: then whoever removes them may not be done, and what is left of ours is taken for ours without its marker.
 */
export function restorePlace(place: Place, again = false): void {
  checkWay(place.root);
  makeRoot(place.root);
  // What was missing may have been made by somebody else meanwhile.
  checkWay(place.root);
  checkOwn(place.root, place.root);
  mark(place, again);
  let fresh = false;
  for (const path of childrenOf(place)) {
    const made = tryMkdir(path);
    fresh ||= made && (path === place.locks || path === place.floor);
    if (!made) checkOwn(place.root, path);
  }
  // Whoever removed the old locks took their fences with them. They were at most this far ahead of the clock.
  if (fresh) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, FORGET_MS);
}

function childrenOf(place: Place): string[] {
  const { owners, locks, queues, forced, companions, sockets, floor, trash } = place;
  return [owners, locks, queues, forced, companions, sockets, floor, trash];
}

function makeRoot(root: string): void {
  if (disk.exists(root)) return;
  const parent = dirname(root);
  if (parent !== root) makeRoot(parent);
  tryMkdir(root);
}

/** Throws unless nobody else can replace a directory or a link on the way to the root; what is missing will be ours. */
function checkWay(root: string): void {
  if (process.getuid === undefined) return;
  const rest = dirname(root).split(sep);
  let at = parse(root).root;
  let links = 0;
  // Below a directory in which anybody can make things, an owner whom we cannot name may be anybody.
  let anybody = checkParent(root, at, disk.nature(at), false);
  for (let name = rest.shift(); name !== undefined; name = rest.shift()) {
    if (name === "" || name === ".") continue;
    const next = join(at, name);
    const found = disk.nature(next);
    if (found === undefined) return;
    anybody = checkParent(root, next, found, anybody);
    if (found.kind !== "link") at = next;
    else {
      if (++links > LINKS_MAX) throw unsuitable(root, `there are too many symbolic links on the way to it (${next}).`);
      const target = disk.readlink(next);
      rest.unshift(...target.split(sep));
      if (!target.startsWith(sep)) continue;
      at = parse(target).root;
      anybody = false;
    }
  }
}

/** Returns whether anybody may make things from there on downwards. */
function checkParent(root: string, path: string, found: Nature | undefined, anybody: boolean): boolean {
  if (found === undefined) return anybody;
  const { kind, uid, gid, mode } = found;
  if (kind !== "directory" && kind !== "link")
    throw unsuitable(root, `${path} is ${describe(found)}, not a directory.`);
  const me = process.getuid?.();
  const unknown = uid !== me && uid !== 0 && uid === unmappedUid();
  if (unknown && anybody)
    throw unsuitable(
      root,
      `${path} belongs to a user who is unknown in this user namespace, and lies where anybody can make things. Use a directory below ones that belong to this user or to root.`,
    );
  if (uid !== me && uid !== 0 && !unknown)
    throw unsuitable(
      root,
      `${path} belongs to uid ${uid}, who could replace what is in it; this process runs as uid ${me}. Use a directory below ones that belong to root or to this user.`,
    );
  // A group of one's own has the user's number, by the custom of most systems; root's group is root's.
  const group = gid === 0 || gid === me ? 0 : GROUP_WRITES;
  if (kind === "directory" && (mode & (OTHERS_WRITE | group)) !== 0 && (mode & STICKY) === 0)
    throw unsuitable(
      root,
      `others may write to ${path} (mode ${mode.toString(8)}), and so replace what is in it. Take that right away (chmod go-w), or use another directory.`,
    );
  return anybody || (kind === "directory" && (mode & (OTHERS_WRITE | group)) !== 0);
}

/** The root, and each directory in it. */
function checkOwn(root: string, path: string): void {
  const found = disk.nature(path);
  const it = path === root ? "it" : path;
  if (found === undefined) throw Object.assign(new Error(`${path} vanished`), { code: "ENOENT" });
  if (found.kind === "link")
    throw unsuitable(
      root,
      `${it} is a symbolic link to ${disk.readlink(path)}. Name the directory itself, the same for all processes.`,
    );
  if (found.kind !== "directory") throw unsuitable(root, `${it} is not a directory.`);
  const me = process.getuid?.();
  if (me === undefined) return;
  if (found.uid !== me)
    throw unsuitable(
      root,
      `${it} belongs to uid ${found.uid}, but this process runs as uid ${me}. Each user needs a directory of its own.`,
    );
  if ((found.mode & (OTHERS_WRITE | GROUP_WRITES)) !== 0)
    throw unsuitable(
      root,
      `others may write to ${path === root ? "it" : it} (mode ${found.mode.toString(8)}). Use a directory of its own with mode 700.`,
    );
}

/** Throws unless the root is marked as ours. An empty one is marked, and so is one that 0.1 made. */
function mark(place: Place, again: boolean): void {
  if (isMarked(place)) return;
  const names = disk.list(place.root) ?? [];
  // The stamp alone: a janitor of ours was at work when the directory was removed and made anew.
  if (names.some((name) => name !== STAMP) && !isOfFirstVersion(place, names, again)) {
    // Made meanwhile by somebody who started together with us: the marker comes before all else.
    if (isMarked(place)) return;
    throw unsuitable(
      place.root,
      `there is something in it (${JSON.stringify(names[0])}), and no file "holdfast" that says that it was made for locks. Name an empty directory, or one that does not exist.`,
    );
  }
  try {
    createFile(place.marker, MARKER);
  } catch (error) {
    if (codeOf(error) !== "EEXIST") throw error;
  }
}

function isMarked({ root, marker }: Place): boolean {
  const text = disk.read(marker);
  if (text === undefined) return false;
  // Empty: it is being made, or a power cut took what it said.
  if (/^\0*$/.test(text) || text.startsWith(MARKER_START)) return true;
  throw unsuitable(
    root,
    `its file "holdfast" is of another version of Holdfast: ${JSON.stringify(text.slice(0, 60))}.`,
  );
}

/** 0.1 had no marker. Its directories all together, and nothing else, are nobody else's. */
function isOfFirstVersion(place: Place, names: readonly string[], again: boolean): boolean {
  const children = childrenOf(place).map((path) => path.slice(place.root.length).replace(sep, ""));
  const isKnown = (name: string): boolean =>
    children.includes(name) || name === STAMP || /^self-test-\w{6}$/.test(name);
  return (again || children.every((name) => names.includes(name))) && names.every(isKnown);
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
