// Bugs that the tests once missed, as they would look in today's code. `npm run mutate -- --planted` puts each of them in and
// demands that the named tests notice. A bug whose text is no longer there is an error: say how it would look now, or delete it
// together with what made it possible.

const HANDED_OVER = ["test/backends/redis/keeping.test.ts"];
const FLOOR = ["test/backends/redis/keeping.test.ts"];
const LINGER = ["test/core/linger-ends.test.ts"];
const CORE = [
  "test/core/doubt.test.ts",
  "test/core/time.test.ts",
  "test/core/reentry.test.ts",
  "test/core/local-queue.test.ts",
  "test/core/answers.test.ts",
  "test/core/watchdog.test.ts",
  "test/core/locks.test.ts",
  "test/core/events.test.ts",
  "test/core/close.test.ts",
  "test/core/user-code.test.ts",
];

/** @type {{ name: string, file: string, find: string, put: string, tests: string[] }[]} */
export const planted = [
  // A handed-over lease is kept only until its waiter's request ends.
  {
    name: "hole-1-release",
    file: "src/backends/redis/lua/release.lua",
    find: "heard and till - ticket + ttl or till)",
    put: "till)",
    tests: HANDED_OVER,
  },
  {
    name: "hole-1-promote",
    file: "src/backends/redis/lua/_queue.lua",
    find: "heard and till - terms.ticket + terms.ttl or till",
    put: "till",
    tests: HANDED_OVER,
  },
  // Half of an even number of members counts as a majority.
  {
    name: "hole-2",
    file: "src/backends/quorum/votes.ts",
    find: "Math.floor(members / 2) + 1",
    put: "Math.ceil(members / 2)",
    tests: ["test/backends/quorum/waiting.test.ts"],
  },
  // The clock is no longer the floor of fences.
  {
    name: "hole-3-long-way",
    file: "src/backends/redis/lua/_lock.lua",
    find: "math.max(lock.fence + 1, now_us)",
    put: "(lock.fence + 1)",
    tests: FLOOR,
  },
  // Trust counted from the reply; a late yes revives.
  {
    name: "hole-4-thread-from-reply",
    file: "src/core/renew-thread-worker.ts",
    find: "slot.confirm(sent.atMs - Math",
    put: "slot.confirm(machineMs() - Math",
    tests: ["test/core/thread.test.ts"],
  },
  {
    name: "hole-4-thread-revived",
    file: "src/core/renew-thread-worker.ts",
    find: "if (said !== undefined && isTrusted(hold, machineMs())) {",
    put: "if (said !== undefined) {",
    tests: ["test/core/thread.test.ts"],
  },
  {
    name: "hole-4-zookeeper",
    file: "src/backends/zookeeper/renewals.ts",
    find: "client.since(askedMs)",
    put: "performance.now()",
    tests: ["test/backends/zookeeper/trust.test.ts"],
  },
  // A loss while a sibling waits.
  {
    name: "hole-5-sibling-not-notified",
    file: "src/core/reentry.ts",
    find: "this.#lease!.onLost = (loss) => this.#sendAway(loss);",
    put: "",
    tests: CORE,
  },
  {
    name: "hole-5-sibling-enters-lost",
    file: "src/core/reentry.ts",
    find: "if (!this.#lease!.canBeEntered) return;",
    put: "",
    tests: CORE,
  },
  {
    name: "hole-5-entered-though-lost",
    file: "src/core/reentry.ts",
    find: "if (this.#lease!.lost !== undefined) throw this.#lease!.lost;",
    put: "",
    tests: CORE,
  },
  // A machine that slept.
  {
    name: "hole-5-sure-though-slept",
    file: "src/core/hold.ts",
    find: "return this.trusted(nowMs) && !this.inDoubt(nowMs);",
    put: "return this.trusted(nowMs);",
    tests: CORE,
  },
  {
    name: "hole-5-unexpired-though-slept",
    file: "src/core/hold.ts",
    find: "return !inDoubt && this.#hasTime(nowMs);",
    put: "return this.#hasTime(nowMs);",
    tests: CORE,
  },
  {
    name: "hole-5-sleep-not-taken-off",
    file: "src/core/hold.ts",
    find: "this.options.renew === false ? this.#sleep.sleptMs(this.#period, nowMs) : 0",
    put: "0",
    tests: CORE,
  },
  {
    name: "hole-5-old-proof-after-sleep",
    file: "src/core/hold.ts",
    find: "if (fromMs >= sent.atMs && fromMs === this.#fromMs) this.#period",
    put: "this.#period",
    tests: CORE,
  },
  {
    name: "hole-5-trust-moves-back",
    file: "src/core/hold.ts",
    find: "if (fromMs <= this.#fromMs) return;",
    put: "",
    tests: CORE,
  },
  // minHold lent on within a process.
  {
    name: "hole-5-min-hold-lent",
    file: "src/core/options.ts",
    find: "renew !== false && minHoldMs === 0 && maxHoldMs === Infinity",
    put: "renew !== false && maxHoldMs === Infinity",
    tests: CORE,
  },
  {
    name: "hole-5-max-hold-lent",
    file: "src/core/options.ts",
    find: "renew !== false && minHoldMs === 0 && maxHoldMs === Infinity",
    put: "renew !== false && minHoldMs === 0",
    tests: CORE,
  },
  {
    name: "hole-5-unrenewed-lent",
    file: "src/core/options.ts",
    find: "renew !== false && minHoldMs === 0 && maxHoldMs === Infinity",
    put: "minHoldMs === 0 && maxHoldMs === Infinity",
    tests: CORE,
  },
  // A try that got no answer leaves its claim behind, or is asked for only once.
  {
    name: "hole-5-try-asked-once",
    file: "src/core/acquisition.ts",
    find: "!this.claim.queues && round > 0",
    put: "!this.claim.queues",
    tests: CORE,
  },
  {
    name: "hole-5-fatal-asked-again",
    file: "src/core/acquisition.ts",
    find: "if (isFinal(cause) || ",
    put: "if (",
    tests: CORE,
  },
  // "Absent" in answer to a second release, after a time in which the lease may have run out.
  {
    name: "hole-5-absent-is-released",
    file: "src/core/release.ts",
    find: "was !== undefined && pending.hold.isUnexpired(this.#clock.now())",
    put: "was !== undefined",
    tests: CORE,
  },
  {
    name: "hole-5-absent-is-lost",
    file: "src/core/release.ts",
    find: "if (pending.repeated) return;",
    put: "",
    tests: CORE,
  },
  {
    name: "hole-5-late-absent",
    file: "src/core/release.ts",
    find: 'stillSure || !wasSure || hold.outcome !== undefined ? "lost" : "unknown"',
    put: '"lost"',
    tests: CORE,
  },
  {
    name: "hole-5-swap-cannot-tell",
    file: "src/core/release.ts",
    find: 'stillSure && wasSure ? "released" : "unknown"',
    put: '"released"',
    tests: CORE,
  },
  // A vote that arrives after its round was released.
  {
    name: "hole-5-late-vote",
    file: "src/backends/quorum/round.ts",
    find: 'if (this.#state === "lost" && vote.vote === "granted") this.#takeBack(link);',
    put: "",
    tests: [
      "test/backends/quorum/contention.test.ts",
      "test/backends/quorum/close.test.ts",
      "test/backends/quorum/waiting.test.ts",
      "test/backends/quorum/faults.test.ts",
      "test/backends/quorum/round.test.ts",
      "test/backends/quorum/simulation.test.ts",
    ],
  },
  // Events.
  {
    name: "hole-7-gone",
    file: "src/core/watchdog.ts",
    find: "else if (said !== undefined) gone++;",
    put: "else if (said !== undefined) gone += 0;",
    tests: ["test/core/events.test.ts"],
  },
  {
    name: "hole-7-outcome-error",
    file: "src/core/traced.ts",
    find: 'isA(LockTimeoutError, error) ? "timeout" : "error"',
    put: '"timeout"',
    tests: ["test/core/events.test.ts"],
  },
  // A power cut.
  ...[
    "  else await put(folder, own, data);\n  await syncFolder(folder);",
    "be gone.\n    await syncFolder(folder);",
  ].map((find, index) => ({
    name: `hole-7-fsync-${index + 1}`,
    file: "src/fence/file/versions.ts",
    find,
    put: find.replace(/ +await syncFolder\(folder\);/, ""),
    tests: ["test/fence/power.test.ts"],
  })),
  {
    name: "hole-7-fsync-above",
    file: "src/fence/file/versions.ts",
    find: "await syncFolder(above)",
    put: "await Promise.resolve()",
    tests: ["test/fence/power.test.ts"],
  },
  {
    name: "hole-7-fsync-data",
    file: "src/fence/file/versions.ts",
    find: '{ flag: "wx", flush: true }',
    put: '{ flag: "wx" }',
    tests: ["test/fence/power.test.ts"],
  },
  // A claim whose question may come late holds, and that is taken for its lease.
  {
    name: "echo-released",
    file: "src/core/release.ts",
    find: "inDoubt || (hold.echoes && hold.outcome === undefined)",
    put: "inDoubt",
    tests: CORE,
  },
  {
    name: "echo-swapped",
    file: "src/core/lending.ts",
    find: "!hold.echoes && !hold.inDoubt(nowMs)",
    put: "!hold.inDoubt(nowMs)",
    tests: CORE,
  },
  // A hold that lingers, or a try that waits for one, is in the way of others.
  {
    name: "linger-outcome",
    file: "src/core/lending.ts",
    find: "if (!hold.lingers || hold.outcome !== undefined || hold.claim",
    put: "if (!hold.lingers || hold.claim",
    tests: LINGER,
  },
  {
    name: "linger-outcome-handed-on",
    file: "src/core/lending.ts",
    find: "if (!options.reusable || hold.outcome !== undefined || options",
    put: "if (!options.reusable || options",
    tests: LINGER,
  },
  {
    name: "linger-deadline-not-dropped",
    file: "src/core/own-holds.ts",
    find: "if (hold.idle !== undefined) this.#parts.lingering.drop(hold);",
    put: "",
    tests: LINGER,
  },
  {
    name: "linger-deadline-stays",
    file: "src/core/linger.ts",
    find: "if (idle !== undefined) this.#deadlines.clear(idle);",
    put: "void idle;",
    tests: LINGER,
  },
  {
    name: "linger-not-heard-wanted",
    file: "src/core/local-queue.ts",
    find: "if (hold.lingers) expectWanted(this.#parts.backend, claim);",
    put: "",
    tests: LINGER,
  },
  {
    name: "linger-held-up-by-try",
    file: "src/core/tries.ts",
    find: "!one.isComingBack && !this.isSilent(one)",
    put: "!this.isSilent(one)",
    tests: LINGER,
  },
  {
    name: "linger-in-the-way-of-claim",
    file: "src/core/by-claim.ts",
    find: "this.#engine.queueOf(this.name)?.letGo();",
    put: "",
    tests: LINGER,
  },
];
