/** A program as its user would have written it: for developers who want to see what went wrong. */
import type { Options, Program, Step } from "./program.ts";

const NAMES = "ABCDEFGH";

/** The program as TypeScript, with what goes wrong in comments. */
export function printProgram(program: Program): string {
  const { lagMs, run, linger, without = [], faults = [], threads, seed } = program;
  const head = [
    `// seed ${seed ?? 1}; default ttl 3000 ms`,
    ...(run === undefined ? [] : [`// a grant reserves ${run} fence(s)`]),
    ...(linger === undefined ? [] : [`// default linger ${linger} ms`]),
    ...(lagMs === undefined ? [] : [`// every message takes up to ${lagMs} ms each way`]),
    ...(without.length === 0 ? [] : [`// the backend has no ${without.join(", no ")}`]),
    ...faults.map(
      ({ client, operation, nth, fault }) =>
        `// ${NAMES[client]}'s ${operation} number ${nth}: ${JSON.stringify(fault)}`,
    ),
  ];
  const bodies = threads.flatMap(({ client, steps }, at) => [
    `// ${at + 1}`,
    ...steps.flatMap((step) => print(step, NAMES[client] ?? "?")),
  ]);
  return [...head, ...bodies].join("\n");
}

function print(step: Step, who: string): string[] {
  const inside = (steps: readonly Step[]): string[] =>
    steps.flatMap((inner) => print(inner, who)).map((line) => `  ${line}`);
  const lock = "lock" in step ? JSON.stringify(step.lock) : "";
  const options = "with" in step && step.with !== undefined ? `, ${printOptions(step.with)}` : "";
  const caught = "loose" in step && step.loose === true ? "" : ".catch(() => {})";
  switch (step.do) {
    case "run":
      return [`await ${who}.run(${lock}${options}, async (lease) => {`, ...inside(step.steps), `})${caught};`];
    case "acquire":
    case "try": {
      const verb = step.do === "try" ? "tryAcquire" : "acquire";
      return [`lease${step.slot ?? 0} = await ${who}.${verb}(${lock}${options})${caught};`];
    }
    case "elect":
      return [`void ${who}.elect(${lock}${options}, async (lease) => {`, ...inside(step.steps), `});`];
    case "release":
      return [`${step.loose === true ? "void" : "await"} lease${step.slot ?? ""}.release();`];
    case "dispose":
      return [`${step.loose === true ? "void" : "await"} lease${step.slot ?? ""}[Symbol.asyncDispose]();`];
    case "extend":
      return [`${step.loose === true ? "void" : "await"} lease${step.slot ?? ""}.extend(${step.ttl ?? ""});`];
    case "check":
      return [`lease${step.slot ?? ""}.assertHeld();${step.times === undefined ? "" : ` // ${step.times} times`}`];
    case "listen":
      return step.steps.length === 0
        ? [`lease${step.slot ?? ""}.signal;`]
        : [`lease${step.slot ?? ""}.signal.addEventListener("abort", async () => {`, ...inside(step.steps), "});"];
    case "on":
      return [`once(${JSON.stringify(`holdfast:${step.event}`)}, async () => {`, ...inside(step.steps), "});"];
    case "throw":
      return ['throw new Error("the work failed");'];
    case "abort":
      return [`controller${step.signal}.abort();`];
    case "close":
      return [`${who}.close(${JSON.stringify({ force: step.force, grace: step.grace })});`.replace("({})", "()")];
    case "force":
      return [`await ${who}.forceRelease(${lock}, its holder);`];
    case "doubt":
      return [`// ${who} reconnects`];
    case "all":
      return [
        "await Promise.all([",
        ...step.branches.flatMap((branch) => [
          "  (async () => {",
          ...inside(branch).map((line) => `  ${line}`),
          "  })(),",
        ]),
        `])${caught};`,
      ];
    case "fork":
      return ["void (async () => {", ...inside(step.steps), "})();"];
    case "sleep":
      return [`await sleep(${step.ms});`];
    case "block":
    case "pause":
    case "suspend":
    case "wall":
      return [`// ${step.do === "block" ? "all" : who}: ${step.do} ${step.ms} ms`];
  }
}

function printOptions({ signal, ...rest }: Options): string {
  const fields = Object.entries(rest).map(([name, value]) => `${name}: ${JSON.stringify(value)}`);
  if (signal !== undefined) fields.push(`signal: controller${signal}.signal`);
  return `{ ${fields.join(", ")} }`;
}
