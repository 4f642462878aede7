// Bugs that the tests once missed, as they would look in today's code. `npm run mutate -- --planted` puts each of them in and
// demands that the named tests notice. A bug whose text is no longer there is an error: say how it would look now, or delete it
// together with what made it possible.

const HANDED_OVER = ["test/redis/keeping.test.ts"];
const FLOOR = ["test/redis/keeping.test.ts"];
const CORE = [
  "test/core/time.test.ts",
  "test/core/reentry.test.ts",
  "test/core/turnstile.test.ts",
  "test/core/answers.test.ts",
  "test/core/keeper.test.ts",
  "test/core/locks.test.ts",
  "test/core/events.test.ts",
  "test/core/close.test.ts",
  "test/core/user-code.test.ts",
];

/** @type {{ name: string, file: string, find: string, put: string, tests: string[] }[]} */
export const planted = [
  // A handed-over lease is kept only until its waiter's ticket ends.
  {
    name: "hole-1-release",
    file: "src/redis/lua/release.lua",
    find: "heard and till - ticket + ttl or till)",
    put: "till)",
    tests: HANDED_OVER,
  },
  {
    name: "hole-1-promote",
    file: "src/redis/lua/_queue.lua",
    find: "heard and till - terms.ticket + terms.ttl or till",
    put: "till",
    tests: HANDED_OVER,
  },
  // Half of an even number of members counts as a majority.
  {
    name: "hole-2",
    file: "src/quorum/round.ts",
    find: "Math.floor(members / 2) + 1",
    put: "Math.ceil(members / 2)",
    tests: ["test/quorum/waiting.test.ts"],
  },
  // The clock is no longer the floor of fences.
  {
    name: "hole-3-long-way",
    file: "src/redis/lua/_lock.lua",
    find: "math.max(lock.fence + 1, now_us)",
    put: "(lock.fence + 1)",
    tests: FLOOR,
  },
  // Trust counted from the reply; a late yes revives.
  {
    name: "hole-4-thread-from-reply",
    file: "src/thread-worker.ts",
    find: "hold.view[0] = sentAtMs;",
    put: "hold.view[0] = nowMs();",
    tests: ["test/core/thread.test.ts"],
  },
  {
    name: "hole-4-thread-revived",
    file: "src/thread-worker.ts",
    find: "if (held === true && nowMs() < trustedUntilMs) {",
    put: "if (held === true) {",
    tests: ["test/core/thread.test.ts"],
  },
  {
    name: "hole-4-zookeeper",
    file: "src/zookeeper/renewal.ts",
    find: "client.since(askedMs)",
    put: "performance.now()",
    tests: ["test/zookeeper/trust.test.ts"],
  },
  // A loss while a sibling waits.
  {
    name: "hole-5-sibling-not-told",
    file: "src/reentry.ts",
    find: "this.#lease!.onLost = (reason) => this.#sendAway(reason);",
    put: "",
    tests: CORE,
  },
  {
    name: "hole-5-sibling-enters-lost",
    file: "src/reentry.ts",
    find: "if (!this.#lease!.canBeEntered) return;",
    put: "",
    tests: CORE,
  },
  {
    name: "hole-5-entered-though-lost",
    file: "src/reentry.ts",
    find: "if (this.#lease!.lost !== undefined) throw this.#lease!.lost;",
    put: "",
    tests: CORE,
  },
  // A machine that slept.
  {
    name: "hole-5-sure-though-slept",
    file: "src/hold.ts",
    find: "return this.trusted(nowMs) && !this.inDoubt(nowMs);",
    put: "return this.trusted(nowMs);",
    tests: CORE,
  },
  {
    name: "hole-5-unexpired-though-slept",
    file: "src/hold.ts",
    find: "return this.#hasTime(nowMs) && !this.inDoubt(nowMs);",
    put: "return this.#hasTime(nowMs);",
    tests: CORE,
  },
  {
    name: "hole-5-sleep-not-taken-off",
    file: "src/hold.ts",
    find: "this.spec.renew === false ? this.#sleptMs(nowMs) : 0",
    put: "0",
    tests: CORE,
  },
  {
    name: "hole-5-old-proof-after-sleep",
    file: "src/hold.ts",
    find: "if (fromMs >= sent.atMs) this.#wallLeadMs",
    put: "this.#wallLeadMs",
    tests: CORE,
  },
  {
    name: "hole-5-trust-moves-back",
    file: "src/hold.ts",
    find: "if (fromMs > this.#fromMs) this.#fromMs = fromMs;",
    put: "this.#fromMs = fromMs;",
    tests: CORE,
  },
  // minHold lent on within a process.
  {
    name: "hole-5-min-hold-lent",
    file: "src/spec.ts",
    find: "renew !== false && minHoldMs === 0 && maxHoldMs === Infinity",
    put: "renew !== false && maxHoldMs === Infinity",
    tests: CORE,
  },
  {
    name: "hole-5-max-hold-lent",
    file: "src/spec.ts",
    find: "renew !== false && minHoldMs === 0 && maxHoldMs === Infinity",
    put: "renew !== false && minHoldMs === 0",
    tests: CORE,
  },
  {
    name: "hole-5-unrenewed-lent",
    file: "src/spec.ts",
    find: "renew !== false && minHoldMs === 0 && maxHoldMs === Infinity",
    put: "minHoldMs === 0 && maxHoldMs === Infinity",
    tests: CORE,
  },
  // A try that got no answer leaves its claim behind, or is asked for only once.
  {
    name: "hole-5-try-asked-once",
    file: "src/acquire.ts",
    find: "!this.claim.queues && round > 0",
    put: "!this.claim.queues",
    tests: CORE,
  },
  {
    name: "hole-5-fatal-asked-again",
    file: "src/acquire.ts",
    find: "if (isFinal(cause) || ",
    put: "if (",
    tests: CORE,
  },
  // "Absent" in answer to a second release, after a time in which the lease may have run out.
  {
    name: "hole-5-absent-is-released",
    file: "src/release.ts",
    find: "was !== undefined && pending.hold.isUnexpired(this.#clock.now())",
    put: "was !== undefined",
    tests: CORE,
  },
  {
    name: "hole-5-absent-is-lost",
    file: "src/release.ts",
    find: "if (pending.repeated) return;",
    put: "",
    tests: CORE,
  },
  {
    name: "hole-5-late-absent",
    file: "src/release.ts",
    find: 'stillSure || !wasSure ? "lost" : "unknown"',
    put: '"lost"',
    tests: CORE,
  },
  {
    name: "hole-5-swap-cannot-tell",
    file: "src/release.ts",
    find: 'stillSure && wasSure ? "released" : "unknown"',
    put: '"released"',
    tests: CORE,
  },
  // A vote that arrives after its round was released.
  {
    name: "hole-5-late-vote",
    file: "src/quorum/round.ts",
    find: 'if (this.#state === "lost" && vote.vote === "granted") this.#takeBack(seat);',
    put: "",
    tests: [
      "test/quorum/contention.test.ts",
      "test/quorum/closing.test.ts",
      "test/quorum/waiting.test.ts",
      "test/quorum/faults.test.ts",
      "test/quorum/quorum.test.ts",
      "test/quorum/simulation.test.ts",
    ],
  },
  // Events.
  {
    name: "hole-7-gone",
    file: "src/keeper.ts",
    find: "const [renewed, gone] = [count(true), count(false)];",
    put: "const [renewed, gone] = [count(true), 0];",
    tests: ["test/core/events.test.ts"],
  },
  {
    name: "hole-7-outcome-error",
    file: "src/locks.ts",
    find: 'error instanceof LockTimeoutError ? "timeout" : "error"',
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
];
