/** Scenarios in which a client stops, dies, or is overtaken by its own packets. */
import { KEPT, STALE_WRITE, TTL_MS } from "./scenario.ts";
import type { Scenario, Step } from "./scenario.ts";

const A_TAKES: readonly Step[] = [
  { do: "acquire", who: "A", granted: true },
  { do: "read", who: "A" },
  { do: "sleep", ms: 150 },
];

/** B waits for the lock, does its work and leaves. */
const B_WORKS: readonly Step[] = [
  { do: "acquire", who: "B", waitMs: 8 * TTL_MS, granted: true },
  { do: "read", who: "B" },
  { do: "sleep", ms: 200 },
  { do: "write", who: "B" },
  { do: "sleep", ms: 100 },
  { do: "release", who: "B", result: "released" },
];

const EVERYWHERE = {
  redis: STALE_WRITE,
  quorum: STALE_WRITE,
  zookeeper: STALE_WRITE,
  postgres: STALE_WRITE,
  etcd: STALE_WRITE,
  sentinel: STALE_WRITE,
} as const;
const WITH_FILE = { ...EVERYWHERE, file: STALE_WRITE } as const;

export const clientScenarios: readonly Scenario[] = [
  {
    id: "pause",
    title: "The holder is paused past its lease",
    story:
      "A takes the lock, reads, and its whole process stops: garbage collection, a page fault, a busy hypervisor. Its lease runs out, B does its work. Then A wakes up and writes what it had in mind.",
    source: "Kleppmann 2016, “How to do distributed locking”",
    plays: ["S03", "S36"],
    outcomes: WITH_FILE,
    compares: true,
    steps: [
      ...A_TAKES,
      { do: "pause", who: "A" },
      ...B_WORKS,
      { do: "resume", who: "A" },
      { do: "check", who: "A", held: false },
      { do: "write", who: "A" },
      { do: "release", who: "A", result: "lost" },
    ],
  },
  {
    id: "check-then-write",
    title: "The holder looks first, and is paused right after",
    story:
      "A asks “do I still hold it?”, hears yes, and is paused before the next line. No check before the write can help; only a check at the protected thing can.",
    source: "Kleppmann 2016: “you cannot fix this by inserting a check”",
    plays: ["S04"],
    outcomes: WITH_FILE,
    steps: [
      ...A_TAKES,
      { do: "check", who: "A", held: true },
      { do: "pause", who: "A" },
      ...B_WORKS,
      { do: "resume", who: "A" },
      { do: "write", who: "A" },
    ],
  },
  {
    id: "delayed-write",
    title: "The holder's write arrives late",
    story:
      "A sends its write in time and then dies. The packet hangs in the network for longer than the lease, and arrives after B's.",
    source: "Kleppmann 2016 (the 90 seconds of GitHub's network); Hazelcast FencedLock",
    plays: ["S05"],
    outcomes: WITH_FILE,
    compares: true,
    steps: [
      ...A_TAKES,
      { do: "hold writes", who: "A" },
      { do: "write", who: "A", later: true },
      { do: "until writes hang", who: "A" },
      { do: "kill", who: "A" },
      ...B_WORKS,
      { do: "deliver writes", who: "A" },
      { do: "until written", who: "A" },
    ],
  },
  {
    id: "blocked-loop",
    title: "The holder's event loop is blocked past its lease",
    story:
      "A computes for longer than its lease without giving the event loop a turn: no timer fires, no renewal leaves. B takes over. A's very next question must be answered “no”.",
    source: "Every Node service with a large JSON.parse",
    plays: ["S06"],
    outcomes: WITH_FILE,
    compares: true,
    steps: [
      ...A_TAKES,
      { do: "block", who: "A", ms: 2.5 * TTL_MS, later: true },
      ...B_WORKS,
      { do: "settle", who: "A" },
      { do: "check", who: "A", held: false },
      { do: "write", who: "A" },
    ],
  },
  {
    id: "blocked-loop-thread",
    title: "The same, renewed from a worker thread",
    story:
      'With `renew: "thread"` a blocked event loop does not lose the lock: another thread keeps it alive meanwhile.',
    source: "Holdfast's answer to the scenario before",
    plays: ["S06"],
    outcomes: { redis: KEPT },
    steps: [
      { do: "acquire", who: "A", renew: "thread", granted: true },
      { do: "read", who: "A" },
      { do: "block", who: "A", ms: 2 * TTL_MS, later: true },
      { do: "acquire", who: "B", waitMs: TTL_MS, granted: false },
      { do: "settle", who: "A" },
      { do: "check", who: "A", held: true },
      { do: "write", who: "A" },
      { do: "release", who: "A", result: "released" },
    ],
  },
  {
    id: "stale-release",
    title: "The last holder releases what is no longer its own",
    story:
      "A's lease has run out and B holds the lock. A, none the wiser, releases. B must keep its lock, and A must hear the truth.",
    source: "redis.io: “a client may remove a lock that was created by another client”",
    plays: ["S01"],
    outcomes: { redis: KEPT, quorum: KEPT, zookeeper: KEPT, postgres: KEPT, etcd: KEPT, file: KEPT, sentinel: KEPT },
    compares: true,
    steps: [
      { do: "acquire", who: "A", granted: true },
      { do: "pause", who: "A" },
      { do: "acquire", who: "B", waitMs: 8 * TTL_MS, granted: true },
      { do: "resume", who: "A" },
      { do: "release", who: "A", result: "lost" },
      { do: "sleep", ms: 100 },
      { do: "check", who: "B", held: true },
      { do: "acquire", who: "A", granted: false },
      { do: "read", who: "B" },
      { do: "write", who: "B" },
      { do: "release", who: "B", result: "released" },
    ],
  },
  {
    id: "crash",
    title: "The holder is killed while another waits",
    story:
      "A is killed in the middle of its work. B, which waits, must get the lock by itself, and A's half-done work must not come back.",
    source: "redis.io: deadlock-freedom",
    plays: ["S08", "S42"],
    outcomes: { redis: KEPT, quorum: KEPT, zookeeper: KEPT, postgres: KEPT, etcd: KEPT, file: KEPT, sentinel: KEPT },
    compares: true,
    steps: [...A_TAKES, { do: "kill", who: "A" }, ...B_WORKS],
  },
  {
    id: "lock-delay",
    title: "After a crash the lock stays taken for a while",
    story:
      "With `lockDelay` the lock stays taken after an unclean end, so the dead holder's last packets arrive before the next holder begins.",
    source: "Chubby (Burrows 2006)",
    plays: ["S91"],
    outcomes: { redis: KEPT, quorum: KEPT },
    steps: [
      { do: "acquire", who: "A", lockDelayMs: TTL_MS, granted: true },
      { do: "kill", who: "A" },
      { do: "acquire", who: "B", waitMs: TTL_MS, granted: false },
      ...B_WORKS,
    ],
  },
  {
    id: "max-hold",
    title: "A hung holder cannot keep the lock for ever",
    story:
      "A holds the lock and hangs, while its watchdog renews faithfully. `maxHold` bounds it: renewal stops, A learns of it, B gets its turn.",
    source: "redis.io: “the number of extensions must be limited”",
    plays: ["S44", "S20"],
    outcomes: { redis: KEPT, quorum: KEPT, zookeeper: KEPT, postgres: KEPT, etcd: KEPT, file: KEPT },
    steps: [
      { do: "acquire", who: "A", maxHoldMs: 2 * TTL_MS, granted: true },
      { do: "until lost", who: "A" },
      ...B_WORKS,
    ],
  },
  {
    id: "client-clock",
    title: "The holder's wall clock jumps",
    story:
      "A's wall clock is set an hour ahead and two hours back while it holds the lock. Nothing may come of it: leases are counted on the monotonic clock.",
    source: "Kleppmann 2016; antirez 2016 agreed",
    plays: ["S17"],
    outcomes: { redis: KEPT, quorum: KEPT, zookeeper: KEPT, postgres: KEPT, etcd: KEPT, file: KEPT },
    steps: [
      ...A_TAKES,
      { do: "client clock", who: "A", jumpMs: 3_600_000 },
      { do: "sleep", ms: TTL_MS },
      { do: "check", who: "A", held: true },
      { do: "client clock", who: "A", jumpMs: -7_200_000 },
      { do: "sleep", ms: TTL_MS },
      { do: "check", who: "A", held: true },
      { do: "acquire", who: "B", granted: false },
      { do: "write", who: "A" },
      { do: "release", who: "A", result: "released" },
    ],
  },
  {
    id: "waiters-clocks",
    title: "The waiters' wall clocks disagree",
    story:
      "B asks before C, but B's clock is ten minutes ahead and C's ten minutes behind. The queue must be in the order in which they asked, not in the order of their clocks.",
    source: "Redisson #1104",
    plays: ["S55"],
    outcomes: { redis: KEPT, zookeeper: KEPT, postgres: KEPT, etcd: KEPT },
    steps: [
      { do: "client clock", who: "B", jumpMs: 600_000 },
      { do: "client clock", who: "C", jumpMs: -600_000 },
      ...A_TAKES,
      { do: "acquire", who: "B", waitMs: 8 * TTL_MS, granted: true, later: true },
      { do: "sleep", ms: 400 },
      { do: "acquire", who: "C", waitMs: 16 * TTL_MS, granted: true, later: true },
      { do: "sleep", ms: 400 },
      { do: "write", who: "A" },
      { do: "release", who: "A", result: "released" },
      // Had C been first, it would not release before B's wait is over.
      { do: "settle", who: "B" },
      { do: "sleep", ms: 200 },
      { do: "release", who: "B", result: "released" },
      { do: "settle", who: "C" },
      { do: "release", who: "C", result: "released" },
    ],
  },
];
