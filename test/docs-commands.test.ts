/**
 * The commands in the pages can be typed: each `holdfast …` names a command that there is, with flags that it takes; each scenario of
 * `holdfast lab run` is played on the backend beside it; and each `npm run …` is a script, a judge or a benchmark of this repository.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { expect, test } from "vitest";
import { COMMANDS, findCommand } from "../src/cli/commands/all.ts";
import { COMMON_FLAGS, parseFlags } from "../src/cli/flags.ts";
import { backendsOf } from "../src/lab/run.ts";
import { scenarios } from "../src/lab/scenarios/all.ts";
import type { StageName } from "../src/lab/stage.ts";
import { PLAYED, SOAKED } from "../src/lab/stages/all.ts";
import { ROOT } from "./dist.ts";

const read = (path: string): string => readFileSync(join(ROOT, path), "utf8");

/** Decisions tell how it was. */
const pages = [
  "README.md",
  "CHANGELOG.md",
  "CONTRIBUTING.md",
  "SECURITY.md",
  "SUPPORT.md",
  ...readdirSync(join(ROOT, "docs"), { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".md") && !/^(?:generated|decisions)\//.test(file))
    .map((file) => `docs/${file}`),
].map((path) => [path, read(path)] as const);

const { scripts } = JSON.parse(read("package.json")) as { readonly scripts: Readonly<Record<string, string>> };
/** What a reader's own package has. */
const THEIRS: readonly string[] = ["migrate"];
const JUDGES = [...read("judges/run.mjs").matchAll(/^\/\/ {3}npm run judges -- (\S+)/gm)].map(([, name = ""]) => name);
const SUITES = [.../const SUITES = \[([^\]]+)\]/.exec(read("bench/run.mjs"))![1]!.matchAll(/"([^"]+)"/g)].map(
  ([, name = ""]) => name,
);

const LAB_FLAGS = {
  backend: { type: "string" },
  report: { type: "string" },
  jobs: { type: "string" },
  minutes: { type: "string" },
  seed: { type: "string" },
  json: { type: "boolean" },
  help: { type: "boolean", short: "h" },
} as const;

interface Shown {
  readonly page: string;
  /** The words after the program's name. */
  readonly words: readonly string[];
}

/** The words of a command, up to what the shell does with it next. */
function wordsOf(line: string): readonly string[] {
  const words = line.match(/"(?:\\.|[^"])*"|'[^']*'|[^\s"'|&;>)]+|[|&;>)]/g) ?? [];
  const end = words.findIndex((word) => /^[|&;>)#]/.test(word));
  return (end < 0 ? words : words.slice(0, end)).map((word) => word.replaceAll(/^["']|["']$/g, ""));
}

/** The commands of a page that begin with this program: in blocks of a shell, and in the text. */
function commandsOf(page: string, text: string, program: string): readonly Shown[] {
  const blocks = [...text.matchAll(/^ *```sh\n([\s\S]*?)^ *```$/gm)].flatMap(([, code = ""]) => code.split("\n"));
  const spans = [...text.replaceAll(/^( *)(`{3,})[^\n]*\n[\s\S]*?^\1\2$/gm, "").matchAll(/`([^`\n]+)`/g)];
  const begins = new RegExp(String.raw`(?:^|&& |\$\()(?:npx )?${program} (.+)$`);
  return [...blocks.map((line) => line.replace(/^[\d* ]+ {2}/, "")), ...spans.map(([, span = ""]) => span)].flatMap(
    (line) => {
      const [, rest] = begins.exec(line.trim()) ?? [];
      return rest === undefined ? [] : [{ page, words: wordsOf(rest) }];
    },
  );
}

function faultsOfLab(words: readonly string[]): readonly string[] {
  const { values, positionals } = parseArgs({ args: [...words], allowPositionals: true, options: LAB_FLAGS });
  const [action = "list", ...names] = positionals;
  const stages = (values.backend?.split(",") ?? []) as readonly StageName[];
  const known: readonly string[] = action === "soak" ? SOAKED : PLAYED;
  const unknown = names.filter((name) => !scenarios.some(({ id }) => id === name));
  const chosen = scenarios.filter(({ id }) => names.includes(id));
  return [
    ...(["list", "run", "compare", "soak"].includes(action) ? [] : [`there is no action ${action}`]),
    ...unknown.map((name) => `there is no scenario ${name}`),
    ...stages.filter((stage) => !known.includes(stage)).map((stage) => `${action} knows no ${stage}`),
    ...chosen
      .filter((one) => backendsOf(one, stages).length === 0 && stages.some((stage) => known.includes(stage)))
      .map(({ id }) => `${id} is not played on ${stages.join(", ")}`),
  ];
}

/** What is wrong with a command of `holdfast`. A placeholder in capitals, or dots, stands for any of them. */
async function faultsOf({ page, words }: Shown): Promise<readonly string[]> {
  const [name = "", ...args] = words;
  if (/^[A-Z…[]/.test(name) || name.startsWith("-")) return [];
  const said = (fault: string): string => `${page}: holdfast ${words.join(" ")}: ${fault}`;
  const entry = findCommand(name);
  if (entry === undefined) return [said("there is no such command")];
  // In the text a flag may be named without its value.
  const whole = args.at(-1)?.startsWith("--") === true ? [...args, "1"] : args;
  try {
    if (name === "lab") return faultsOfLab(args).map(said);
    const command = await entry.load();
    if (typeof command !== "function") parseFlags(name, command.spec.flags, whole);
    return [];
  } catch (error) {
    return [said((error as Error).message)];
  }
}

/** What is wrong with a `npm run …`. */
function faultsOfScript({ page, words }: Shown): readonly string[] {
  const [name = "", dashes, ...args] = words;
  const said = (fault: string): string => `${page}: npm run ${words.join(" ")}: ${fault}`;
  if (/^[A-Z…]/.test(name) || THEIRS.includes(name)) return [];
  if (!Object.hasOwn(scripts, name)) return [said("there is no such script")];
  const known: Readonly<Record<string, readonly string[]>> = { judges: JUDGES, bench: SUITES };
  const flags = args.findIndex((one) => one.startsWith("-"));
  const named = dashes === "--" ? args.slice(0, flags < 0 ? args.length : flags) : [];
  return named
    .filter((one) => known[name]?.includes(one) === false && !/^[A-Z…]/.test(one))
    .map((one) => said(`there is no ${one}`));
}

test("every command of holdfast in the pages can be typed", async () => {
  const shown = pages.flatMap(([page, text]) => commandsOf(page, text, "holdfast"));
  expect(shown.length).toBeGreaterThan(150);
  expect(new Set(shown.map(({ words }) => words[0])).size).toBeGreaterThan(COMMANDS.length - 3);
  const faults = await Promise.all(shown.map(faultsOf));
  expect(faults.flat()).toEqual([]);
});

/** Flags of commands that a page does not name: `run --wait`. */
async function unnamedFlags(page: string): Promise<readonly string[]> {
  const flags = await Promise.all(
    COMMANDS.map(async ({ name, load }) => {
      const command = await load();
      const own = typeof command === "function" ? [] : Object.keys({ ...COMMON_FLAGS, ...command.spec.flags });
      return own.map((flag) => [name, flag] as const);
    }),
  );
  return flags
    .flat()
    .filter(([, flag]) => !new RegExp(`--${flag}(?![\\w-])`).test(page))
    .map(([name, flag]) => `${name} --${flag}`);
}

test("the page of the command line names every flag", async () => {
  const page = read("docs/cli.md");
  expect(await unnamedFlags(page)).toEqual([]);
  expect(await unnamedFlags(page.replaceAll("--every", ""))).toEqual(["top --every"]);
  expect((await unnamedFlags("")).length).toBeGreaterThan(100);
});

test("every script of npm in the pages is there, and what it is given", () => {
  const shown = pages.flatMap(([page, text]) => commandsOf(page, text, "npm run"));
  expect(shown.length).toBeGreaterThan(80);
  expect(JUDGES.length).toBeGreaterThan(8);
  expect(SUITES.length).toBeGreaterThan(10);
  expect(shown.flatMap(faultsOfScript)).toEqual([]);
});

test("a command, a flag, a scenario, a backend and a script that are not there are seen", async () => {
  const wrong = [
    ["holdfast", "list"],
    ["holdfast", "show migrate --colour"],
    ["holdfast", "release migrate --fence 1 --fence 2"],
    ["holdfast", "lab run pauses"],
    ["holdfast", "lab run leader-dies --backend redis"],
    ["holdfast", "lab run pause --backend mongo"],
    ["holdfast", "lab play pause"],
  ] as const;
  for (const [program, line] of wrong) {
    const block = `\`\`\`sh\n${program} ${line}   # what it does\n\`\`\`\n`;
    const span = `Or \`npx ${program} ${line}\`.`;
    for (const text of [block, span]) {
      const faults = await Promise.all(commandsOf("docs/new.md", text, program).map(faultsOf));
      expect(faults.flat(), line).toHaveLength(1);
    }
  }
  const scripted = commandsOf("docs/new.md", "`npm run nothing`, `npm run judges -- etcd unknown --write`", "npm run");
  expect(scripted.flatMap(faultsOfScript)).toHaveLength(2);
  const right = commandsOf("docs/new.md", "`holdfast run a -- sh -c --nothing` or `holdfast renew --ttl`", "holdfast");
  expect((await Promise.all(right.map(faultsOf))).flat()).toEqual([]);
  expect(right).toHaveLength(2);
});
