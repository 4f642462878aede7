/**
 * The ground that locks stand on: whether the directory is ours, and making it. Whoever may replace it, or anything on
 * the way to it, can let two hold one lock; and what lies in it is removed in time. So a directory with anything in it is
 * only used if our marker says that it was made for locks, and if it is ours alone (`way.ts`).
 */
import { dirname, sep } from "node:path";
import { codeOf, createFile, disk, tryMkdir } from "./disk.ts";
import { FORGET_MS } from "./fences.ts";
import { type Place, unsuitable } from "./directory.ts";
import { checkOwn, checkWay } from "./blocked-by.ts";

const MARKER_START = "holdfast 1";
const MARKER = `${MARKER_START}\nThis directory belongs to Holdfast, which makes and removes what is in it: docs/backends/file.md.\n`;
/** In the root: when a janitor last began. */
const STAMP = "cleaned";

/**
 * Makes the directories that are missing, and throws unless all are ours alone. At the start, and `again` whenever one has
 * vanished: then whoever removes them may not be done, and what is left of ours is taken for ours without its marker.
 */
export function restorePlace(place: Place, again = false): void {
  const refuse = (why: string): Error => unsuitable(place.root, why);
  checkWay(place.root, refuse);
  makeRoot(place.root);
  // What was missing may have been made by somebody else meanwhile.
  checkWay(place.root, refuse);
  checkOwn(place.root, place.root, refuse);
  mark(place, again);
  let fresh = false;
  for (const path of childrenOf(place)) {
    const made = tryMkdir(path);
    fresh ||= made && (path === place.locks || path === place.floor);
    if (!made) checkOwn(place.root, path, refuse);
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
