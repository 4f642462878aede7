/** Programs that broke a rule on 83aced5, or later, with the seed of the generator's first find where it found them by itself. */
import type { Program, Rule, Step } from "../../src/testing/programs/program.ts";

export interface OldProgram {
  readonly id: string;
  readonly title: string;
  /** What it broke then. */
  readonly broke: Rule;
  readonly program: Program;
}

const sleep = (ms: number): Step => ({ do: "sleep", ms });
const run = (lock: string | readonly string[], ...steps: readonly Step[]): Step => ({ do: "run", lock, steps });
const read = (lock: string, ...steps: readonly Step[]): Step => ({ do: "run", lock, with: { mode: "shared" }, steps });

export const programs: readonly OldProgram[] = [
  {
    id: "S137",
    title: "work that resolves after its lease was lost has a loss, also where siblings had taken turns inside", // seed 95281
    broke: "unexpected error",
    program: {
      threads: [
        {
          client: 0,
          steps: [run("x", { do: "all", branches: [[run("x")], [run("x")]] }, { do: "pause", ms: 3240 })],
        },
      ],
    },
  },
  {
    id: "S149",
    title: "nor is a lease, when a subscriber of its acquire closes the locks", // seed 55929
    broke: "entered a lease that is over",
    program: {
      threads: [
        {
          client: 0,
          steps: [
            { do: "on", event: "acquire:asyncEnd", steps: [{ do: "check" }, { do: "close" }] },
            { do: "try", lock: "p" },
          ],
        },
      ],
    },
  },
  {
    id: "S124",
    title: "a group is not handed out when close() has begun to release it in the same turn", // seed 34519
    broke: "entered a lease that is over",
    program: {
      threads: [
        {
          client: 0,
          steps: [
            {
              do: "all",
              branches: [
                [{ do: "try", lock: "p", loose: true }, { do: "force", lock: "p" }, { do: "close" }],
                [{ do: "try", lock: ["x", "y", "z"] }],
              ],
            },
          ],
        },
      ],
    },
  },
  {
    id: "S121",
    title: "no claim enters a lease that its user released", // seed 18
    broke: "entered a lease that is over",
    program: { threads: [{ client: 0, steps: [run("x", { do: "release" }, run("x"))] }] },
  },
  {
    id: "S121",
    title: "no claim enters a lease whose release is on its way", // seed 200329
    broke: "believed without the store",
    program: {
      lagMs: 50,
      threads: [{ client: 0, steps: [run("x", { do: "release", loose: true }, { do: "try", lock: "x" })] }],
    },
  },
  {
    id: "S121",
    title: "a request that queues inside a lease does not run once that lease is released",
    broke: "entered a lease that is over",
    program: {
      threads: [
        {
          client: 0,
          steps: [
            run("x", {
              do: "all",
              loose: true,
              branches: [
                [{ do: "run", lock: "x", steps: [{ do: "throw" }], loose: true }],
                [run("x", sleep(500))],
                [run("x", sleep(500))],
              ],
            }),
          ],
        },
        { client: 1, steps: [sleep(100), run("x", sleep(1000))] },
      ],
    },
  },
  {
    id: "S121",
    title: "two inside one lease take turns, also one that was started deeper inside", // seed 313
    broke: "two holders",
    program: {
      threads: [
        { client: 0, steps: [run("x", run("x", { do: "fork", steps: [run("x", sleep(5))] }), run("x", sleep(5)))] },
      ],
    },
  },
  {
    id: "S124",
    title: "a group is not handed out without a part that was lost meanwhile", // seed 660
    broke: "group without a part",
    program: {
      seed: 660,
      lagMs: 10,
      threads: [
        { client: 0, steps: [sleep(20), { do: "run", lock: ["y", "x"], with: { mode: "shared" }, steps: [] }] },
        { client: 0, steps: [read("x", { do: "force", lock: "x" })] },
      ],
    },
  },
  {
    id: "S129",
    title: "every reader learns of the loss, whatever the listeners do", // seed 101680
    broke: "signal too late",
    program: {
      threads: [
        {
          client: 0,
          steps: [
            ...[0, 1, 2, 3].map((slot): Step => ({ do: "acquire", lock: "x", with: { mode: "shared" }, slot })),
            ...[0, 1, 2, 3].map((slot): Step => ({ do: "listen", slot, steps: [{ do: "release", slot }] })),
            sleep(5),
            { do: "force", lock: "x" },
            sleep(4000),
          ],
        },
      ],
    },
  },
  {
    id: "S131",
    title: "release() settles though the store hangs and another request waits here",
    broke: "does not settle",
    program: {
      faults: [{ client: 0, operation: "swap", nth: 1, fault: { fault: "hang" } }],
      threads: [
        { client: 0, steps: [run("x", sleep(20))] },
        { client: 0, steps: [sleep(5), run("x")] },
      ],
    },
  },
  {
    id: "S132",
    title: "close() leaves no waiter behind in the store", // seed 34
    broke: "left after close",
    program: {
      seed: 34,
      lagMs: 1,
      threads: [
        { client: 0, steps: [{ do: "try", lock: "x" }] },
        { client: 1, steps: [{ do: "elect", lock: "x", steps: [] }] },
      ],
    },
  },
  {
    id: "S132",
    title: "close() leaves no lease behind that is granted while it closes", // seed 410
    broke: "left after close",
    program: {
      seed: 410,
      lagMs: 50,
      threads: [
        {
          client: 0,
          steps: [{ do: "all", branches: [[{ do: "try", lock: "p" }], [{ do: "try", lock: "x" }, { do: "close" }]] }],
        },
      ],
    },
  },
  {
    id: "S133",
    title: "close() with force works after a close() that timed out",
    broke: "unexpected error",
    program: {
      threads: [
        { client: 0, steps: [run("x", sleep(1000))] },
        { client: 0, steps: [sleep(1), { do: "close", grace: 10 }, { do: "close", grace: 0, force: true }] },
      ],
    },
  },
  {
    id: "S137",
    title: "run() tells of a loss, also to work that read the signal", // seed 394
    broke: "resolved though lost",
    program: { threads: [{ client: 0, steps: [run("x", { do: "listen", steps: [] }, { do: "force", lock: "x" })] }] },
  },
  {
    id: "S137",
    title: "run() inside a lease tells of its loss too", // seed 281
    broke: "resolved though lost",
    program: { threads: [{ client: 0, steps: [run("x", run("x", { do: "block", ms: 3000 }))] }] },
  },
  {
    id: "S142",
    title: "tryAcquire() does not take another try's old no for its own",
    broke: "busy though free",
    program: {
      faults: [{ client: 0, operation: "attempt", nth: 1, fault: { fault: "delay", replyMs: 200 } }],
      threads: [
        { client: 1, steps: [run("x", sleep(10))] },
        { client: 0, steps: [sleep(5), { do: "try", lock: "x" }] },
        { client: 0, steps: [sleep(100), { do: "try", lock: "x" }] },
      ],
    },
  },
  {
    id: "S142",
    title: "tryAcquire() is not refused for a waiter that gives up", // seed 203091
    broke: "busy though free",
    program: {
      lagMs: 90,
      seed: 0,
      threads: [
        { client: 0, steps: [{ do: "run", lock: "x", with: { wait: 1 }, steps: [] }] },
        { client: 0, steps: [{ do: "try", lock: "x" }] },
      ],
    },
  },
  {
    id: "S149",
    title: "close() without force leaves running work its lease", // seed 161
    broke: "close under work",
    program: {
      threads: [
        { client: 0, steps: [run("x", { do: "close" }, sleep(1000))] },
        { client: 1, steps: [sleep(10), run("x")] },
      ],
    },
  },
  {
    id: "S149",
    title: "close() without force leaves a leader its office", // seed 1262
    broke: "close under work",
    program: { threads: [{ client: 0, steps: [{ do: "elect", lock: "x", steps: [{ do: "close" }, sleep(5)] }] }] },
  },
  {
    id: "S150",
    title: "a reader's run() tells of the loss, also beside other readers", // seed 104843
    broke: "resolved though lost",
    program: {
      threads: [
        {
          client: 0,
          steps: [{ do: "try", lock: "x", with: { mode: "shared" } }, read("x", { do: "pause", ms: 3000 })],
        },
      ],
    },
  },
  {
    id: "S151",
    title: "release() settles when close() comes and the store is silent",
    broke: "does not settle",
    program: {
      faults: [{ client: 0, operation: "release", nth: 1, fault: { fault: "hang" } }],
      threads: [
        {
          client: 0,
          steps: [{ do: "acquire", lock: "x" }, { do: "release", slot: 0, loose: true }, { do: "close" }],
        },
      ],
    },
  },
  {
    id: "S151",
    title: "release() in answer to close() settles", // seed 200054
    broke: "does not settle",
    program: {
      lagMs: 90,
      seed: 0,
      threads: [
        {
          client: 0,
          steps: [
            { do: "try", lock: "x" },
            { do: "listen", slot: 0, steps: [{ do: "release", slot: 0 }] },
          ],
        },
      ],
    },
  },
  {
    id: "S152",
    title: "news of a forced end that overtakes the grant is not forgotten", // seed 201101
    broke: "believed after the news",
    program: {
      faults: [{ client: 0, operation: "attempt", nth: 1, fault: { fault: "delay", replyMs: 50 } }],
      threads: [
        { client: 0, steps: [run("x", sleep(2000))] },
        { client: 1, steps: [sleep(10), { do: "force", lock: "x" }, run("x", sleep(2000))] },
      ],
    },
  },
  {
    id: "S153",
    title: "close() sends those away who wait inside a lease",
    broke: "lease handed out after close",
    program: {
      threads: [
        {
          client: 0,
          steps: [run("x", { do: "all", branches: [[run("x", sleep(100))], [run("x", sleep(100))]] })],
        },
        { client: 0, steps: [sleep(10), { do: "close" }] },
      ],
    },
  },
  {
    id: "S154",
    title: "a waiter does not fail for the errors of a try before it",
    broke: "gave up too early",
    program: {
      faults: [
        { client: 0, operation: "attempt", nth: 1, fault: { fault: "request-lost" } },
        { client: 0, operation: "attempt", nth: 2, fault: { fault: "request-lost" } },
      ],
      threads: [
        { client: 0, steps: [{ do: "try", lock: "x", with: { signal: 0 } }] },
        { client: 0, steps: [{ do: "acquire", lock: "x", with: { wait: 5000 } }] },
        { client: 0, steps: [{ do: "abort", signal: 0 }] },
      ],
    },
  },
  {
    id: "S155",
    title: "a writer inside a reader does not work beside another reader",
    broke: "two holders",
    program: {
      threads: [
        {
          client: 0,
          steps: [
            run("x", {
              do: "all",
              branches: [[read("x", sleep(5), run("x", sleep(100)))], [read("x", sleep(50))]],
            }),
          ],
        },
      ],
    },
  },
  {
    id: "S156",
    title: "a lease that is not renewed tells of its end soon after a sleep", // seed 106833
    broke: "signal too late",
    program: {
      threads: [
        {
          client: 0,
          steps: [
            { do: "acquire", lock: "x", with: { renew: false, ttl: 30_000 } },
            { do: "listen", slot: 0, steps: [] },
            { do: "suspend", ms: 40_000 },
            sleep(29_000),
          ],
        },
      ],
    },
  },
  {
    id: "S157",
    title: "asking a lease in doubt does not renew all others each time",
    broke: "too many requests",
    program: {
      threads: [
        {
          client: 0,
          steps: [
            { do: "acquire", lock: "x", with: { renew: false, ttl: 30_000 } },
            { do: "acquire", lock: "y", slot: 1 },
            { do: "wall", ms: 3000 },
            { do: "check", slot: 0, times: 80 },
          ],
        },
      ],
    },
  },
  {
    id: "S157",
    title: "elect() ends with close(), not a second later", // seed 2
    broke: "does not settle",
    program: { threads: [{ client: 0, steps: [{ do: "elect", lock: "x", steps: [] }] }] },
  },
  {
    id: "S157",
    title: "no claim enters a lease with a signal that was aborted before", // seed 109
    broke: "started with an aborted signal",
    program: {
      threads: [
        {
          client: 0,
          steps: [{ do: "abort", signal: 0 }, run("x", { do: "run", lock: "x", with: { signal: 0 }, steps: [] })],
        },
      ],
    },
  },
  {
    id: "S157",
    title: "release() does not say unknown when the store said yes",
    broke: "unknown without a reason",
    program: {
      faults: [{ client: 0, operation: "swap", nth: 1, fault: { fault: "delay", replyMs: 50 } }],
      threads: [
        {
          client: 0,
          steps: [
            { do: "acquire", lock: "x" },
            sleep(20),
            { do: "release", slot: 0, loose: true },
            { do: "wall", ms: 3000 },
          ],
        },
        { client: 0, steps: [sleep(5), run("x")] },
      ],
    },
  },
  {
    id: "S157",
    title: "errors of a client library reach users as LockBackendError",
    broke: "unexpected error",
    program: {
      faults: [
        { client: 0, operation: "attempt", nth: 1, fault: { fault: "error" } },
        { client: 0, operation: "attempt", nth: 2, fault: { fault: "error" } },
      ],
      threads: [{ client: 0, steps: [{ do: "try", lock: "x" }] }],
    },
  },
  // Those from here on broke a rule of 0.2 while it was being made.
  {
    id: "S132",
    title: "close() waits for a question whose asker got the hold of another instead", // seed 60024407
    broke: "left after close",
    program: {
      seed: 60_024_407,
      lagMs: 90,
      threads: [
        { client: 0, steps: [run("y"), { do: "try", lock: "x", with: { mode: "shared" } }] },
        { client: 0, steps: [read("x")] },
        { client: 0, steps: [{ do: "run", lock: "x", with: { wait: 0 }, steps: [] }] },
      ],
    },
  },
  {
    id: "S132",
    title: "close() counts on it that a claim that still waits can be granted, and only then has its ttl", // seed 60064765
    broke: "left after close",
    program: {
      faults: [{ client: 0, operation: "release", nth: 2, fault: { fault: "hang" } }],
      threads: [
        {
          client: 0,
          steps: [
            read("x", sleep(0), { do: "listen", slot: 1, steps: [{ do: "close" }] }),
            { do: "elect", lock: "p", steps: [{ do: "force", lock: "x" }, sleep(3240)] },
          ],
        },
        {
          client: 0,
          steps: [
            { do: "try", lock: "x", with: { renew: false, mode: "shared" } },
            { do: "listen", slot: 0, steps: [{ do: "acquire", lock: "x", with: { ttl: 1000 } }] },
            { do: "try", lock: "x", with: { renew: false, mode: "shared" }, slot: 1 },
          ],
        },
      ],
    },
  },
  {
    id: "S131",
    title: "a release that is asked for again at the end of the lease gets the time of an answer", // seed 60077625
    broke: "unknown without a reason",
    program: {
      faults: [{ client: 0, operation: "release", nth: 1, fault: { fault: "hang" } }],
      threads: [{ client: 0, steps: [{ do: "run", lock: "x", with: { maxHold: 1000 }, steps: [{ do: "release" }] }] }],
    },
  },
  {
    id: "S132",
    title: "close() waits for the release of a lease in doubt, which is renewed first, beyond the end of trust in it", // seed 180398
    broke: "left after close",
    program: {
      seed: 180_398,
      lagMs: 90,
      threads: [
        {
          client: 0,
          steps: [
            { do: "try", lock: "x", with: { ttl: 300 } },
            { do: "try", lock: "z", with: { renew: false }, slot: 2 },
            { do: "listen", slot: 0, steps: [{ do: "release", slot: 0 }] },
            { do: "wall", ms: 2187 },
          ],
        },
      ],
    },
  },
  {
    id: "S132",
    title: "close() waits for a release beyond the lease's maxHold, which is not when the store lets go", // seed 297717
    broke: "left after close",
    program: {
      seed: 0,
      lagMs: 3,
      faults: [{ client: 1, operation: "release", nth: 1, fault: { fault: "hang" } }],
      threads: [
        { client: 1, steps: [{ do: "elect", lock: "x", with: { maxHold: 1000, ttl: 30_000 }, steps: [] }, sleep(1)] },
      ],
    },
  },
  {
    id: "S132",
    title: "close() does not give up for the time in which its own event loop was blocked", // seed 101416
    broke: "unwanted claim",
    program: {
      seed: 0,
      lagMs: 10,
      threads: [
        { client: 0, steps: [run("x")] },
        { client: 0, steps: [{ do: "close" }] },
        { client: 0, steps: [sleep(0), { do: "block", ms: 5248 }] },
      ],
    },
  },
  {
    id: "S132",
    title: "close() waits for a lease whose renewal was on its way when its release was lost", // seed 285037
    broke: "left after close",
    program: {
      seed: 285_037,
      run: 1,
      lagMs: 90,
      faults: [
        { client: 0, operation: "renew", nth: 1, fault: { fault: "request-lost" } },
        { client: 0, operation: "release", nth: 2, fault: { fault: "request-lost" } },
        { client: 0, operation: "release", nth: 4, fault: { fault: "hang" } },
      ],
      threads: [
        { client: 0, steps: [run("x")] },
        {
          client: 0,
          steps: [
            { do: "acquire", lock: "x", with: { ttl: 1000 } },
            { do: "try", lock: "y", with: { ttl: 1000 } },
            { do: "acquire", lock: "x", with: { mode: "shared" } },
            { do: "acquire", lock: "x", with: { mode: "shared" } },
          ],
        },
      ],
    },
  },
  {
    id: "S165",
    title: "a lease that was extended is asked for after a third of its longer ttl, also after a sleep", // seed 330424: the judge was wrong
    broke: "signal too late",
    program: {
      seed: 0,
      threads: [
        { client: 0, steps: [sleep(0), { do: "extend", slot: 0, ttl: 30_000 }, sleep(3240)] },
        {
          client: 0,
          steps: [
            { do: "try", lock: "x" },
            { do: "listen", slot: 0, steps: [] },
            { do: "suspend", ms: 32_400 },
          ],
        },
      ],
    },
  },
  {
    id: "S142",
    title: "a try of several locks gives each answer its time", // seeds 297841 and 236905
    broke: "unexpected error",
    program: {
      seed: 0,
      lagMs: 90,
      threads: [{ client: 0, steps: [{ do: "try", lock: ["x", "y", "z"], with: { ttl: 300 } }] }],
    },
  },
  {
    id: "S142",
    title: "a try is busy if a lock that lingered does not come back in time", // seed 37454
    broke: "unexpected error",
    program: {
      seed: 0,
      lagMs: 90,
      linger: 10,
      threads: [
        { client: 0, steps: [{ do: "try", lock: "x", with: { ttl: 300, linger: 30 } }] },
        { client: 1, steps: [{ do: "run", lock: ["x", "y"], steps: [] }] },
      ],
    },
  },
  {
    id: "S181",
    title: "a listener is inside the lease in whose work the signal was read, whatever ends that lease", // the judge was wrong
    broke: "fence",
    program: {
      seed: 0,
      threads: [
        {
          client: 0,
          steps: [
            run("x", {
              do: "run",
              lock: "y",
              with: { ttl: 300, renew: false },
              steps: [{ do: "listen", steps: [run("x")] }, sleep(400)],
            }),
          ],
        },
      ],
    },
  },
  {
    id: "S142",
    title: "what a candidate releases after the program's end lingers from then on", // the judge was wrong
    broke: "unwanted claim",
    program: {
      seed: 0,
      linger: 300,
      threads: [{ client: 0, steps: [{ do: "elect", lock: "x", steps: [run("y", sleep(200))] }, run("z")] }],
    },
  },
];

/** S128, found at seed 108413: on 83aced5 the watchdog loops for ever, so that this runs in a thread that can be ended. */
export const endless: Program = {
  seed: 108_413,
  threads: [
    { client: 0, steps: [sleep(320)] },
    {
      client: 1,
      steps: [
        { do: "try", lock: "x", with: { ttl: 300, renew: false } },
        sleep(1),
        { do: "listen", slot: 0, steps: [{ do: "listen", slot: 1, steps: [{ do: "dispose", slot: 3 }] }] },
        { do: "try", lock: "y", with: { ttl: 300, renew: false }, slot: 1 },
        sleep(5),
        { do: "try", lock: "z", with: { ttl: 300 } },
        { do: "try", lock: "w", with: { ttl: 300, renew: false }, slot: 3 },
      ],
    },
  ],
};
