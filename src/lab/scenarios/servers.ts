/** Scenarios in which a server forgets, lags, jumps or hangs. */
import { KEPT, TTL_MS } from "./scenario.ts";
import type { Outcome, Scenario, Step } from "./scenario.ts";

const FORGETS = (because: string): Outcome => ({ exclusion: "broken", harm: "stale write", because });

/** A believes for the whole ttl: no renewal shows earlier that the store lost the lease. */
const A_TAKES: readonly Step[] = [
  { do: "acquire", who: "A", renew: false, granted: true },
  { do: "read", who: "A" },
  { do: "sleep", ms: 150 },
];

const B_OVERTAKES: readonly Step[] = [
  { do: "acquire", who: "B", waitMs: TTL_MS, granted: true },
  { do: "read", who: "B" },
  { do: "sleep", ms: 150 },
  { do: "write", who: "B" },
  { do: "sleep", ms: 150 },
  { do: "write", who: "A" },
  { do: "release", who: "B", result: "released" },
];

const LONG_MS = 5 * TTL_MS;
const NOT_REPLICATED = "replication is asynchronous: what was not replicated is lost with the primary";
const CROWD = ["A", "B", "C", "D", "E"];

export const serverScenarios: readonly Scenario[] = [
  {
    id: "clock-jump",
    title: "The server's wall clock jumps ahead",
    story:
      "Redis counts leases on its wall clock. That clock is set ahead, A's lease is gone at once, and B takes the lock while A still believes.",
    source: "Kleppmann 2016; antirez: “an operator's problem”",
    plays: ["S16"],
    outcomes: { redis: FORGETS("one Redis counts leases on its wall clock") },
    ttlMs: LONG_MS,
    compares: true,
    steps: [...A_TAKES, { do: "server", fault: { jumpMs: 2 * LONG_MS } }, ...B_OVERTAKES],
  },
  {
    id: "clock-jump-back",
    title: "The server's wall clock jumps back",
    story:
      "The same clock, set back by an hour: no other client gets in, and A still renews and releases. Had A died, its lock would stay taken for the hour.",
    source: "Kleppmann 2016",
    plays: ["S16"],
    outcomes: { redis: KEPT },
    steps: [
      { do: "acquire", who: "A", granted: true },
      { do: "read", who: "A" },
      { do: "server", fault: { jumpMs: -3_600_000 } },
      { do: "acquire", who: "B", waitMs: TTL_MS, granted: false },
      { do: "check", who: "A", held: true },
      { do: "write", who: "A" },
      { do: "release", who: "A", result: "released" },
      { do: "acquire", who: "B", waitMs: TTL_MS, granted: true },
      { do: "read", who: "B" },
      { do: "write", who: "B" },
      { do: "release", who: "B", result: "released" },
    ],
  },
  {
    id: "clock-jump-member",
    title: "One member's clock jumps, and the partition is just right",
    story:
      "The example that started the Redlock debate: A holds a majority {1, 2, 3} and is cut off from {4, 5}; the clock of 3 jumps; B, cut off from {1, 2}, asks {3, 4, 5}. A member whose clock is far from the others' has no vote.",
    source: "Kleppmann 2016, the first Redlock example",
    plays: ["S31", "S46"],
    outcomes: { quorum: KEPT },
    members: 5,
    ttlMs: LONG_MS,
    steps: [
      { do: "network", who: "A", fault: "hang", of: [3, 4] },
      { do: "network", who: "B", fault: "hang", of: [0, 1] },
      ...A_TAKES,
      { do: "server", fault: { jumpMs: 3_600_000 }, of: [2] },
      { do: "acquire", who: "B", waitMs: TTL_MS, granted: false },
      { do: "check", who: "A", held: true },
      { do: "write", who: "A" },
      { do: "release", who: "A" },
    ],
  },
  {
    id: "restart",
    title: "The server restarts empty",
    story:
      "Redis without persistence crashes and comes back at once, with no memory of A's lease. B takes the lock while A still believes.",
    source: "redis.io; Kleppmann 2016",
    plays: ["S32", "S95"],
    outcomes: { redis: FORGETS("without persistence a crash forgets every lease") },
    ttlMs: LONG_MS,
    compares: true,
    steps: [
      ...A_TAKES,
      { do: "server", fault: "restart" },
      { do: "acquire", who: "B", waitMs: 2000, granted: true },
      { do: "read", who: "B" },
      { do: "write", who: "B" },
      { do: "write", who: "A" },
      { do: "release", who: "B", result: "released" },
    ],
  },
  {
    id: "restart-durable",
    title: "The server restarts, and had written everything down",
    story: "The same crash with `appendfsync always`: the lease is still there after it, and so is exclusion.",
    source: "redis.io, “safety arguments”",
    plays: [],
    outcomes: { redis: KEPT, postgres: KEPT },
    durable: true,
    ttlMs: LONG_MS,
    steps: [
      ...A_TAKES,
      { do: "server", fault: "restart" },
      { do: "acquire", who: "B", waitMs: TTL_MS, granted: false },
      { do: "check", who: "A", held: true },
      { do: "write", who: "A" },
      { do: "release", who: "A", result: "released" },
    ],
  },
  {
    id: "restart-member",
    title: "One member restarts empty, and the partition is just right",
    story:
      "A holds {1, 2} of three members; 2 restarts empty; B, cut off from 1, asks {2, 3}. A member that forgot its leases abstains for the longest lease there may be, so B gets nothing too early.",
    source: "Kleppmann 2016, the second Redlock example; redis.io, “delayed restarts”",
    plays: ["S32", "S46"],
    outcomes: { quorum: KEPT },
    ttlMs: LONG_MS,
    steps: [
      { do: "network", who: "A", fault: "hang", of: [2] },
      { do: "network", who: "B", fault: "hang", of: [0] },
      ...A_TAKES,
      { do: "server", fault: "restart", of: [1] },
      { do: "acquire", who: "B", waitMs: TTL_MS, granted: false },
      { do: "check", who: "A", held: true },
      { do: "write", who: "A" },
      { do: "release", who: "A" },
    ],
  },
  {
    id: "flush",
    title: "The store is emptied",
    story:
      "FLUSHALL, or an eviction that hit the wrong key: the lease is gone, B takes the lock while A still believes. The fences rise all the same.",
    source: "Operations",
    plays: ["S15", "S95"],
    outcomes: { redis: FORGETS("what is deleted from the store cannot protect") },
    ttlMs: LONG_MS,
    compares: true,
    steps: [...A_TAKES, { do: "server", fault: "flush" }, ...B_OVERTAKES],
  },
  {
    id: "flush-member",
    title: "One member is emptied, and the partition is just right",
    story:
      "A holds {1, 2} of three members; 2 is emptied while it runs; B, cut off from 1, asks {2, 3}. The member sees that its memory is not what it was, and abstains.",
    source: "What an uptime check does not see",
    plays: ["S15", "S32"],
    outcomes: { quorum: KEPT },
    ttlMs: LONG_MS,
    steps: [
      { do: "network", who: "A", fault: "hang", of: [2] },
      { do: "network", who: "B", fault: "hang", of: [0] },
      ...A_TAKES,
      { do: "server", fault: "flush", of: [1] },
      { do: "acquire", who: "B", waitMs: TTL_MS, granted: false },
      { do: "check", who: "A", held: true },
      { do: "write", who: "A" },
      { do: "release", who: "A" },
    ],
  },
  {
    id: "failover",
    title: "The primary dies before it replicated",
    story:
      "A's lease was written to the primary and never reached a replica. The primary dies, a replica is promoted, and B takes the lock that A holds.",
    source: "redis.io: “there is an obvious race condition with this model”",
    plays: ["S21", "S95"],
    outcomes: { sentinel: FORGETS(NOT_REPLICATED), postgres: FORGETS(NOT_REPLICATED) },
    standby: {},
    ttlMs: 40 * TTL_MS,
    steps: [
      { do: "acquire", who: "B", granted: true },
      { do: "release", who: "B" },
      { do: "cut replication" },
      ...A_TAKES,
      { do: "server", fault: "kill", of: [0] },
      { do: "acquire", who: "B", waitMs: 30 * TTL_MS, granted: true },
      { do: "read", who: "B" },
      { do: "write", who: "B" },
      { do: "write", who: "A" },
      { do: "release", who: "B" },
    ],
  },
  {
    id: "failover-quarantine",
    title: "The same, with a quarantine after every fail-over",
    story:
      "The promoted replica sees that it is not the server that granted the leases, and grants nothing until the longest of them is over. With `min-replicas-to-write` on the servers of Redis, exclusion is kept.",
    source: "Holdfast's answer to the scenario before",
    plays: ["S21"],
    outcomes: { sentinel: KEPT, postgres: KEPT },
    standby: { query: `failover=quarantine&maxTtl=${2 * TTL_MS}ms` },
    sentinel: {
      query: `failover=quarantine&maxTtl=${2 * TTL_MS}ms&maxLag=3s`,
      args: ["--min-replicas-to-write", "1", "--min-replicas-max-lag", "1"],
    },
    ttlMs: 2 * TTL_MS,
    steps: [
      // A new store may be one that forgot: its first users wait, too.
      { do: "acquire", who: "B", waitMs: 20 * TTL_MS, granted: true },
      { do: "release", who: "B" },
      { do: "cut replication" },
      ...A_TAKES,
      { do: "write", who: "A" },
      { do: "server", fault: "kill", of: [0] },
      { do: "acquire", who: "B", waitMs: 30 * TTL_MS, granted: true },
      { do: "read", who: "B" },
      { do: "write", who: "B" },
      { do: "release", who: "B" },
    ],
  },
  {
    id: "server-pause",
    title: "The store itself is paused",
    story:
      "Every server stops for longer than the lease, and then carries out what has piled up, with fresh leases. A must have counted from when it asked.",
    source: "Virtual machines that are moved",
    plays: ["S13"],
    outcomes: { redis: KEPT, quorum: KEPT, postgres: KEPT },
    compares: true,
    steps: [
      { do: "acquire", who: "A", granted: true },
      { do: "server", fault: "pause" },
      { do: "until lost", who: "A" },
      { do: "server", fault: "resume" },
      { do: "acquire", who: "B", waitMs: 8 * TTL_MS, granted: true },
      { do: "read", who: "B" },
      { do: "write", who: "B" },
      { do: "release", who: "B", result: "released" },
    ],
  },
  {
    id: "slow-node",
    title: "One member hangs",
    story:
      "One of three members accepts connections and never answers. The other two are a majority: no client waits for the third.",
    source: "redis.io: a short time limit per node",
    plays: ["S41"],
    outcomes: { quorum: KEPT },
    steps: [
      { do: "server", fault: "pause", of: [2] },
      { do: "acquire", who: "A", granted: true },
      { do: "read", who: "A" },
      { do: "write", who: "A" },
      { do: "release", who: "A", result: "released" },
      { do: "acquire", who: "B", waitMs: TTL_MS, granted: true },
      { do: "release", who: "B", result: "released" },
      { do: "server", fault: "resume", of: [2] },
    ],
  },
  {
    id: "split-vote",
    title: "Five clients ask five members at the same instant",
    story:
      "Every client may get some votes and none a majority. Random delays must break the tie, and every one must get its turn in the end.",
    source: "redis.io, “retry on failure”",
    plays: ["S40"],
    outcomes: { quorum: KEPT },
    members: 5,
    steps: [
      ...CROWD.map((who): Step => ({ do: "section", who, waitMs: 20 * TTL_MS, later: true })),
      ...CROWD.map((who): Step => ({ do: "settle", who })),
    ],
  },
  {
    id: "leader-dies",
    title: "The leader of the ensemble is killed",
    story:
      "The ensemble elects another leader; A's lease lives on in the others, B keeps waiting, and clients notice only a short pause.",
    source: "ZooKeeper's own promise",
    plays: [],
    outcomes: { zookeeper: KEPT, etcd: KEPT },
    ttlMs: LONG_MS,
    steps: [
      { do: "acquire", who: "A", granted: true },
      { do: "read", who: "A" },
      { do: "server", fault: "kill", of: [2] },
      { do: "sleep", ms: 2 * TTL_MS },
      { do: "check", who: "A", held: true },
      { do: "acquire", who: "B", waitMs: 0, granted: false },
      { do: "write", who: "A" },
      { do: "release", who: "A", result: "released" },
      { do: "acquire", who: "B", waitMs: LONG_MS, granted: true },
      { do: "release", who: "B", result: "released" },
    ],
  },
];
