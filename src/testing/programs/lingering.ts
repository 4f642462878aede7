/** Programs whose holds linger: the others, with a default for all of their calls, and with more of them for one lock in a row. */
import type { SeededChance } from "../seeded-random.ts";
import type { Options, Program, Step, Thread } from "./program.ts";

const LINGERS = [1, 10, 50, 300] as const;
/** Of a program that lingers; a call may say something else than its program. */
export const LINGER_MOST_MS = 300;
/** How many of them are calm. */
const CALM = 0.3;
/** Around the ends of these. */
const MOMENTS = [0, 1, 5, 9, 10, 11, 40, 49, 50, 51, 90, 250, 299, 300, 301] as const;

/** One of several programs lingers. */
export function mayLinger(program: Program, chance: SeededChance, part: number): Program {
  return chance.happens(part) ? lingering(program, chance) : program;
}

function lingering(program: Program, chance: SeededChance): Program {
  if (chance.happens(CALM)) return calm(program, chance);
  const threads = program.threads.map((thread): Thread => {
    if (chance.happens(0.3)) return thread;
    const more = loop(chance);
    return { ...thread, steps: chance.happens(0.5) ? [...more, ...thread.steps] : [...thread.steps, ...more] };
  });
  // Where a grant has one fence only, nothing lingers.
  const { run, ...rest } = program;
  const few = run === 1 ? { run: chance.pick([1, 2, 3]) } : run === undefined ? {} : { run };
  return { ...rest, ...few, linger: chance.pick(LINGERS), threads };
}

/** Two processes, and nothing goes wrong: only there is it a finding that a lock does not come back at once. */
function calm({ seed }: Program, chance: SeededChance): Program {
  const threads = chance
    .pick([
      [0, 1],
      [0, 1],
      [0, 1, 0],
      [0, 1, 1],
    ])
    .map((client): Thread => {
      const start: Step = { do: "sleep", ms: chance.pick(MOMENTS) };
      return { client, steps: [start, ...loop(chance, false)] };
    });
  return { ...(seed !== undefined && { seed }), linger: chance.pick(LINGERS), threads };
}

/** One lock repeatedly, in every way. */
function loop(chance: SeededChance, isRough = true): Step[] {
  const steps: Step[] = [];
  for (let left = chance.pick([2, 3, 5, 8]); left > 0; left--) {
    const lock = chance.happens(0.85) ? "x" : "y";
    const options: Options = {
      ...(chance.happens(0.15) && { linger: chance.pick([0, 10, 300]) }),
      ...(chance.happens(0.1) && { ttl: chance.pick([300, 1000, 30_000]), linger: 30 }),
      ...(chance.happens(0.2) && { wait: chance.pick([0, 1, 100, 5000]) }),
    };
    const wish = { lock, with: options } as const;
    const work: Step[] = chance.happens(0.5) ? [{ do: "sleep", ms: chance.pick(MOMENTS) }] : [];
    const step = chance.pick<() => Step[]>([
      () => [{ do: "run", ...wish, steps: work }],
      () => [{ do: "run", ...wish, steps: [...work, { do: "check" }] }],
      () => [
        { do: "acquire", ...wish, slot: 2 },
        ...work,
        { do: "release", slot: 2, ...(chance.happens(0.3) && { loose: true }) },
      ],
      () => [{ do: "try", ...wish, slot: 3 }, ...work, { do: "release", slot: 3 }],
      () => [{ do: "run", lock: ["x", "y"], steps: work }],
      () => [{ do: "force", lock }],
      () => (isRough ? [rough(chance)] : [{ do: "doubt" }]),
    ]);
    steps.push(...step());
    if (chance.happens(0.7)) steps.push({ do: "sleep", ms: chance.pick(MOMENTS) });
  }
  return steps;
}

function rough(chance: SeededChance): Step {
  return chance.pick<Step>([{ do: "doubt" }, { do: "block", ms: chance.pick(MOMENTS) }, { do: "suspend", ms: 4000 }]);
}
