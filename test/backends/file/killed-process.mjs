/**
 * A process that goes through everything this backend does to a lock, and kills itself before or after the n-th
 * file-system call. Prints each fence that it was granted, and how many calls there were if it gets that far; with an n
 * of 0 also the number of each call that left another disk than it found.
 *
 * Usage: node killed-process.mjs <dist> <dir> <scenario> <n> before|after all|changes [hold | copies <folder>]
 * With `changes` only calls that may change something are counted. With `hold` as a last word it takes a lock and waits
 * to die. With `copies` and an n of 0, the disk that each such call left is copied to a directory with the call's number.
 */
import {
  chmodSync,
  copyFileSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  utimesSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";

const [, , dist, dir, scenario, at, when, which, then, copies] = process.argv;
const { FileBackend } = await import(`${dist}/backends/file/backend.js`);
const { disk } = await import(`${dist}/backends/file/disk.js`);
const CHANGES = ["link", "rename", "unlink", "mkdir", "rmdir", "utimes", "open", "write", "close"];

// Time stands still, for the clocks and for what the disk says about its directories: how many calls there are, and which, must
// not depend on how busy the machine is. The machine's own clock, so that others can compare.
const [nowMs, wallMs] = [Number(process.hrtime.bigint()) / 1e6, Date.now()];
const clock = { now: () => nowMs, wall: () => wallMs, setTimer: () => undefined, clearTimer: () => {} };
const { times } = disk;
disk.times = (path) => {
  const seen = times(path);
  return (
    seen && { size: seen.size, ino: seen.ino, ctimeMs: wallMs, mtimeMs: seen.isDirectory() ? wallMs : seen.mtimeMs }
  );
};

let calls = 0;
for (const [name, call] of Object.entries(disk)) {
  if (which === "changes" && !CHANGES.includes(name)) continue;
  disk[name] = (...args) => {
    calls++;
    const last = calls === Number(at);
    if (last && when === "before") process.kill(process.pid, "SIGKILL");
    const before = at === "0" ? allOf(dir) : "";
    try {
      return call(...args);
    } finally {
      if (last) process.kill(process.pid, "SIGKILL");
      if (at === "0" && allOf(dir) !== before) {
        writeSync(1, `changed ${calls}\n`);
        if (then === "copies") copy(dir, join(copies, String(calls)), new Map());
      }
    }
  };
}

/** All that there is to see of a file or directory: names, which of them are one file, sizes, times, and contents. */
function allOf(path) {
  const stats = lstatSync(path, { throwIfNoEntry: false });
  if (stats === undefined) return "";
  const inside = stats.isDirectory()
    ? readdirSync(path).map((name) => `${name}: ${allOf(join(path, name))}`)
    : [readFileSync(path, "utf8")];
  return [stats.ino, stats.nlink, stats.size, stats.mtimeMs, ...inside].join(" ");
}

/** With all that `allOf` tells, except which inode it is: what is one file under two names stays one. */
function copy(from, to, seen) {
  const stats = lstatSync(from, { throwIfNoEntry: false });
  if (stats === undefined) return;
  const known = seen.get(stats.ino);
  if (stats.isDirectory()) {
    mkdirSync(to);
    for (const name of readdirSync(from)) copy(join(from, name), join(to, name), seen);
  } else if (!stats.isFile()) throw new Error(`${from} cannot be copied`);
  else if (known !== undefined) return linkSync(known, to);
  else copyFileSync(from, to);
  seen.set(stats.ino, to);
  chmodSync(to, stats.mode & 0o7777);
  utimesSync(to, stats.atimeMs / 1000, stats.mtimeMs / 1000);
}

const open = (options) => new FileBackend({ dir, entriesMax: 2, hints: "poll", clock, ...options });
const [a, b, lasting] = [open(), open(), open({ detached: true })];
let count = 0;
const LASTING = "lasting".padEnd(22, "x");
const claim = (change = {}) => ({
  id: `claim-${process.pid}-${count++}`.padEnd(22, "x"),
  name: "doomed",
  mode: "exclusive",
  limit: 1,
  ttlMs: 60_000,
  lockDelayMs: 0,
  minHoldMs: 0,
  holder: "doomed:1",
  meta: {},
  queues: true,
  renewed: true,
  ...change,
});

async function take(backend, wish) {
  const answer = await backend.attempt(wish);
  // Written before anything else happens, so the test knows what was granted.
  if (answer.granted && wish.name === "doomed") writeSync(1, `fence ${answer.fence} ${answer.run}\n`);
  return answer;
}

/** Ends a lease with an outcome that says which lease it was, in more than a page of the disk. */
async function conclude(backend, wish, { fence }) {
  writeSync(1, `concludes ${fence}\n`);
  await backend.release(wish, { value: `${fence} ${"x".repeat(10_000)}`, keepMs: 3_600_000, fence });
  writeSync(1, `kept ${fence}\n`);
}

const scenarios = {
  /** Makes the directory, and the lock. */
  async open() {
    await take(a, claim());
  },
  /** Acquire, renew, release, and a new epoch every other time. */
  async alone() {
    for (let times = 0; times < 3; times++) {
      const one = claim({ renewed: times === 1 });
      await take(a, one);
      await a.renew([one]);
      await a.release(one);
    }
  },
  /** Leases that share a lease file: renewed together, one ended by force, one of another file beside them. */
  async shared() {
    const [one, two, three] = [claim(), claim({ name: "two" }), claim({ name: "three" })];
    const own = claim({ name: "own", renewed: false });
    await take(a, one);
    await take(a, own);
    const { fence } = await take(a, two);
    await a.renew([one, two, own]);
    await b.forceRelease("two", fence, "ops", "stuck");
    await a.renew([one, two]);
    await a.release(one);
    await take(a, three);
    await take(a, claim());
    await a.release(own);
  },
  /** A waiter is handed the lock, gives it to the next, who has given up. */
  async handOver() {
    const [first, second, third] = [claim(), claim(), claim()];
    await take(a, first);
    await take(b, second);
    await take(a, third);
    await a.release(first);
    await take(b, second);
    await a.release(third);
    await b.release(second);
  },
  /** A waiter that is handed the lock for a lease that is to outlive it. */
  async lasting() {
    const [first, second] = [claim(), claim({ id: LASTING })];
    await take(a, first);
    await take(lasting, second);
    await a.release(first);
    await take(lasting, second);
  },
  /** The same among readers, one of which it is. */
  async lastingReader() {
    const [first, reader, second] = [claim(), claim({ mode: "shared" }), claim({ id: LASTING, mode: "shared" })];
    await take(a, first);
    await take(b, reader);
    await take(lasting, second);
    await a.release(first);
    await take(b, reader);
    await take(lasting, second);
  },
  /** A release with an outcome while one waits for it, one that replaces it, and its removal. */
  async outcome() {
    const local = { waiters: 1, users: 1, holds: [], holdsMore: false };
    const [one, waiter, two] = [claim({ local }), claim({ wantsOutcome: true }), claim()];
    const first = await take(a, one);
    await take(b, waiter);
    await conclude(a, one, first);
    await take(b, waiter);
    const second = await take(b, two);
    await conclude(b, two, second);
    writeSync(1, `forgets ${second.fence}\n`);
    await a.forget("doomed", second.fence);
    writeSync(1, `forgot ${second.fence}\n`);
  },
  /** A lock that is taken from its holder by force, before one that waits. */
  async stolen() {
    const [one, waiter, thief] = [claim(), claim(), claim()];
    await take(a, one);
    await take(a, waiter);
    const { fence, run } = await b.steal(thief, "stuck");
    writeSync(1, `fence ${fence} ${run}\n`);
    await a.release(one);
    await b.release(thief);
  },
  /** Readers, and a lease ended by force. */
  async together() {
    const readers = [claim({ mode: "shared" }), claim({ mode: "shared" })];
    await take(a, readers[0]);
    const { fence } = await take(b, readers[1]);
    await a.renew(readers);
    if (await a.forceRelease("doomed", fence, "ops", "stuck")) writeSync(1, `forced ${fence}\n`);
    await a.release(readers[0]);
    const next = claim();
    await a.swap(readers[0], next);
    await a.swap(next, claim());
  },
};

if (then === "hold") {
  await take(a, claim());
  writeSync(1, `pid ${process.pid}\n`);
  await new Promise((resolve) => setTimeout(resolve, 60_000));
}
// Opening is a scenario of its own.
if (scenario !== "open") await Promise.all([a.query(""), b.query(""), lasting.query("")]);
writeSync(1, `opened ${calls}\n`);
await scenarios[scenario]();
await Promise.all([a.close(), b.close(), lasting.close()]);
writeSync(1, `calls ${calls}\n`);
process.exit(0);
