/** The judges of made-up programs can fail: each is shown a backend, or a program, that it must not let pass. */
import { hasSubscribers } from "node:diagnostics_channel";
import { describe, expect, test } from "vitest";
import type { Backend, Claim, Granted } from "../../src/contract/backend.ts";
import { EVENTS } from "../../src/testing/programs/events.ts";
import { generateProgram } from "../../src/testing/programs/generate.ts";
import type { Program, Rule, Step } from "../../src/testing/programs/program.ts";
import { printProgram } from "../../src/testing/programs/print.ts";
import { runProgram } from "../../src/testing/programs/run.ts";
import { shrinkProgram } from "../../src/testing/programs/shrink.ts";

/** The right backend with some of its methods replaced. */
function broken(change: (right: Backend) => Partial<Backend>): (right: Backend) => Backend {
  return (right) => {
    const changed = change(right);
    return new Proxy(right, {
      get: (target, property) => {
        const value: unknown = changed[property as keyof Backend] ?? target[property as keyof Backend];
        return typeof value === "function" ? (value as () => unknown).bind(target) : value;
      },
    });
  };
}

const sleep = (ms: number): Step => ({ do: "sleep", ms });
const work: Step = { do: "run", lock: "x", steps: [sleep(2000)] };
const two: Program = { threads: [0, 1].map((client) => ({ client, steps: [work] })) };
const one: Program = { threads: [{ client: 0, steps: [work] }] };
const held: Program = { threads: [{ client: 0, steps: [{ do: "acquire", lock: "x" }, sleep(5000)] }] };

/** A lock lingers in one process when another asks for it. */
const lingers = (step: Step): Program => ({
  linger: 50,
  threads: [
    { client: 0, steps: [{ do: "run", lock: "x", steps: [] }] },
    { client: 1, steps: [sleep(10), step] },
    // Something happens meanwhile, so that it is looked at.
    { client: 1, steps: [sleep(30)] },
  ],
});

const cases: readonly {
  readonly rule: Rule;
  readonly program: Program;
  readonly tamper: (right: Backend) => Backend;
}[] = [
  {
    rule: "believed without the store",
    program: one,
    // Says yes, and does nothing.
    tamper: broken(() => ({ attempt: async (): Promise<Granted> => ({ granted: true, fence: 7n, run: 1 }) })),
  },
  {
    rule: "believed beyond the store",
    program: held,
    tamper: broken((right) => ({
      renew: async (claims) => (await right.renew([]), claims.map(() => ({ held: true }))),
    })),
  },
  {
    rule: "entered a lease that is over",
    program: one,
    // Gives it back at once, behind the caller's back.
    tamper: broken((right) => ({
      attempt: async (claim: Claim) => {
        const answer = await right.attempt(claim);
        await right.release(claim);
        return answer;
      },
    })),
  },
  {
    rule: "lost though held",
    program: {
      threads: [
        {
          client: 0,
          steps: [
            { do: "acquire", lock: "x" },
            { do: "release", slot: 0 },
          ],
        },
      ],
    },
    tamper: broken((right) => ({ release: async (claim) => (await right.release(claim), "absent") })),
  },
  {
    rule: "unwanted claim",
    program: one,
    tamper: broken(() => ({ release: async () => "held" })),
  },
  {
    rule: "left after close",
    program: { threads: [{ client: 0, steps: [{ do: "acquire", lock: "x" }] }] },
    tamper: broken(() => ({ release: async () => "held" })),
  },
  {
    rule: "unwanted claim",
    // Trust in it ends while messages are waited for; but its work had ended before, and the lease was to be released.
    program: {
      lagMs: 90,
      threads: [{ client: 0, steps: [{ do: "run", lock: "x", with: { ttl: 300, lockDelay: 1000 }, steps: [] }] }],
    },
    tamper: broken(() => ({ release: async () => "held" })),
  },
  {
    rule: "left after close",
    // It was lost, but it has no lock delay for which it would have to be left.
    program: {
      threads: [
        { client: 0, steps: [{ do: "acquire", lock: "x", with: { ttl: 300, maxHold: 200 } }, sleep(250)] },
        { client: 0, steps: [sleep(240), { do: "close" }] },
      ],
    },
    tamper: broken(() => ({ release: async () => "held" })),
  },
  {
    rule: "busy though free",
    program: { threads: [{ client: 0, steps: [{ do: "try", lock: "x" }] }] },
    tamper: broken(() => ({ attempt: async () => ({ granted: false, heldBy: [] }) })),
  },
  {
    rule: "busy though free",
    program: lingers({ do: "try", lock: "x" }),
    // Nothing says that the holder may linger, so that the try does not ask again.
    tamper: broken((right) => ({
      attempt: async (claim) => {
        const answer = await right.attempt(claim);
        return answer.granted
          ? answer
          : { ...answer, heldBy: answer.heldBy.map((holding) => ({ ...holding, lingerMs: undefined })) };
      },
    })),
  },
  {
    rule: "kept though wanted",
    program: lingers({ do: "acquire", lock: "x" }),
    // The holder does not learn that another process waits.
    tamper: broken((right) => ({
      listen: (listener) => right.listen?.({ ...listener, wanted: () => undefined }),
    })),
  },
  {
    rule: "unexpected error",
    program: { threads: [{ client: 0, steps: [{ do: "try", lock: "x" }] }] },
    tamper: broken(() => ({ attempt: () => Promise.reject(new TypeError("a mistake")) })),
  },
  {
    rule: "close under work",
    program: two,
    // Another process's release ends any holder's lease.
    tamper: broken((right) => ({
      renew: async (claims) => {
        const answers = await right.renew(claims);
        for (const claim of claims) await right.release(claim);
        return answers;
      },
    })),
  },
  {
    rule: "signal too late",
    program: {
      threads: [
        {
          client: 0,
          steps: [
            { do: "acquire", lock: "x", with: { ttl: 30_000 } },
            { do: "listen", slot: 0, steps: [] },
            { do: "suspend", ms: 40_000 },
            sleep(60_000),
          ],
        },
      ],
    },
    // It is never answered whether it is still held.
    tamper: broken(() => ({ renew: () => new Promise(() => undefined) })),
  },
];

describe("the judges of programs", () => {
  for (const { rule, program, tamper } of cases) {
    test(`notice: ${rule}`, async () => {
      const { findings } = await runProgram(program, { tamper });
      expect(findings.map((finding) => finding.rule)).toContain(rule);
      expect((await runProgram(program)).findings).toEqual([]);
    });
  }
});

describe("subscribers", () => {
  test("act inside the event, once, and in their own process only", async () => {
    const then = (lock: string): readonly Step[] => [{ do: "try", lock, slot: 1 }];
    const steps: readonly Step[] = [{ do: "on", event: "hold:start", steps: then("y") }, work, work];
    const deaf: readonly Step[] = [{ do: "on", event: "hold:start", steps: then("w") }, sleep(9000)];
    const program: Program = {
      threads: [
        { client: 0, steps },
        { client: 1, steps: deaf },
      ],
    };
    const { findings, log } = await runProgram(program, { trace: true });
    expect(findings).toEqual([]);
    const grants = log.filter((line) => line.includes("grants")).map((line) => /grants (\w)/.exec(line)?.[1]);
    // The lock of the work is granted first; the event of its hold takes the other one, and the second hold takes none.
    expect(grants).toEqual(["x", "y", "x"]);
    expect(hasSubscribers("tracing:holdfast:hold:start")).toBe(false);
  });

  test("are in some programs for each event, and in most programs not", () => {
    const texts = Array.from({ length: 3000 }, (_, at) => JSON.stringify(generateProgram(at + 1)));
    for (const event of EVENTS)
      expect(
        texts.some((text) => text.includes(`"event":"${event}"`)),
        event,
      ).toBe(true);
    expect(texts.filter((text) => text.includes('"do":"on"')).length).toBeLessThan(texts.length / 3);
  });
});

describe("shrinking", () => {
  test("leaves what is needed to break the same rule, and prints it as code", async () => {
    const tamper = broken(() => ({ attempt: async () => ({ granted: false, heldBy: [] }) }));
    const program: Program = {
      seed: 5,
      lagMs: 10,
      faults: [{ client: 0, operation: "renew", nth: 1, fault: { fault: "hang" } }],
      threads: [
        {
          client: 0,
          steps: [sleep(20), { do: "fork", steps: [sleep(5), { do: "try", lock: "y", with: { ttl: 1000 } }] }],
        },
        { client: 1, steps: [sleep(500)] },
      ],
    };
    const trial = async (candidate: Program): Promise<Awaited<ReturnType<typeof runProgram>>["findings"]> =>
      (await runProgram(candidate, { tamper })).findings;
    const small = await shrinkProgram(program, "busy though free", trial);
    expect(small.program).toEqual({ seed: 0, threads: [{ client: 0, steps: [{ do: "try", lock: "x" }] }] });
    expect(printProgram(small.program)).toContain('await A.tryAcquire("x")');
  });
});

describe("what a program cannot be blamed for", () => {
  const fair: Record<string, Program> = {
    "a machine that falls asleep in the middle of a turn (seed 21054)": {
      threads: [
        {
          client: 0,
          steps: [
            { do: "fork", steps: [{ do: "suspend", ms: 0 }] },
            { do: "block", ms: 500 },
            { do: "try", lock: "x" },
          ],
        },
      ],
    },
    "a request that is slow, and answered while its machine sleeps (seed 7000540)": {
      faults: [{ client: 0, operation: "attempt", nth: 1, fault: { fault: "delay", requestMs: 500 } }],
      threads: [
        { client: 0, steps: [{ do: "suspend", ms: 0 }] },
        {
          client: 0,
          steps: [
            { do: "try", lock: "x" },
            { do: "try", lock: "y", with: { ttl: 300 } },
          ],
        },
      ],
    },
    "a signal that another process aborts while this one sleeps": {
      threads: [
        {
          client: 0,
          steps: [
            { do: "acquire", lock: "x" },
            { do: "fork", steps: [{ do: "acquire", lock: "x", with: { signal: 0, ttl: 300 } }] },
            { do: "fork", steps: [{ do: "acquire", lock: "y", with: { ttl: 300 } }] },
            { do: "suspend", ms: 2500 },
          ],
        },
        {
          client: 1,
          steps: [
            { do: "sleep", ms: 1000 },
            { do: "abort", signal: 0 },
          ],
        },
      ],
    },
    "a lease with a lock delay that was lost, and is left to it (seed 247565)": {
      threads: [
        {
          client: 0,
          steps: [
            { do: "run", lock: "p", with: { ttl: 1000, lockDelay: 1000 }, steps: [{ do: "pause", ms: 1093 }] },
            { do: "acquire", lock: "x", with: { ttl: 1000, lockDelay: 1000 } },
            { do: "block", ms: 1093 },
            { do: "release", slot: 0 },
          ],
        },
      ],
    },
    "the same, when the work ends with close() (seed 263548)": {
      seed: 263_548,
      lagMs: 90,
      threads: [
        { client: 0, steps: [{ do: "sleep", ms: 0 }] },
        {
          client: 1,
          steps: [
            {
              do: "run",
              lock: "p",
              with: { ttl: 300, lockDelay: 100 },
              steps: [{ do: "close", force: true, grace: 1000 }],
            },
          ],
        },
      ],
    },
    "a loop that is blocked in the turn in which the work settles (seed 30027493)": {
      threads: [
        {
          client: 0,
          steps: [
            {
              do: "all",
              branches: [
                [
                  { do: "run", lock: "x", steps: [] },
                  { do: "block", ms: 202 },
                ],
                [{ do: "run", lock: ["x", "y"], with: { maxHold: 200 }, steps: [] }],
              ],
            },
          ],
        },
      ],
    },
  };
  for (const [what, program] of Object.entries(fair)) {
    test(what, async () => {
      expect((await runProgram(program)).findings).toEqual([]);
    });
  }
});
