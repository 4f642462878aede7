import { execFileSync } from "node:child_process";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { Bench, MAIN, type Started, until } from "./harness.ts";

const bench = new Bench();
let holders: readonly Started[];
const EVIL = "$(touch pwned)";

beforeAll(async () => {
  holders = ["deploy", "with blank", EVIL].map((name) =>
    bench.start(["run", name, "--", "sh", "-c", "echo in; read x"]),
  );
  await until(() => holders.every((one) => one.stdout() === "in\n"), "all are held");
});
afterAll(async () => {
  for (const holder of holders) holder.process.stdin?.end("\n");
  await Promise.all(holders.map(({ done }) => done));
  bench.close();
});

/** What bash offers for these words, the last of which is being typed. */
function complete(...words: readonly string[]): readonly string[] {
  const script = `holdfast() { ${process.execPath} ${MAIN} "$@"; }
    source <(holdfast completion bash)
    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _holdfast 2>/dev/null; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const env = { ...process.env, HOLDFAST_URL: bench.url };
  const out = execFileSync("bash", ["--norc", "-c", script, "bash", "holdfast", ...words], {
    cwd: bench.dir,
    env,
    encoding: "utf8",
  });
  return out.split("\n").filter((line) => line !== "");
}

describe("bash completion", () => {
  test("offers commands, flags and shells", () => {
    expect(complete("re")).toEqual(["renew", "release"]);
    expect(complete("run", "x", "--wa")).toEqual(["--wait"]);
    expect(complete("completion", "")).toEqual(["bash", "zsh", "fish"]);
  });

  test("offers the names of locks, quoted, and never evaluates them", () => {
    expect(complete("show", "dep")).toEqual(["deploy"]);
    expect(complete("show", "with")).toEqual(["with\\ blank"]);
    expect(complete("show", "")).toHaveLength(3);
    expect(execFileSync("ls", [bench.dir], { encoding: "utf8" })).not.toContain("pwned");
  });

  test("offers programs after --", () => {
    expect(complete("run", "x", "--", "mkdi")).toContain("mkdir");
  });
});

test.each(["bash", "zsh", "fish"])("the %s script knows every command and flag", async (shell) => {
  const { code, stdout } = await bench.run(["completion", shell]);
  expect(code).toBe(0);
  for (const word of ["elect", "doctor", "conflict-exit-code", "self-test"]) expect(stdout).toContain(word);
});

test("the zsh script hands what follows -- over to zsh, whose table of programs it leaves alone", async () => {
  const { stdout } = await bench.run(["completion", "zsh"]);
  expect(stdout).toMatch(/words\[\(i\)--\][^]*_normal -p holdfast/);
  // A local variable of that name would hide every program.
  expect(stdout).not.toMatch(/\bcommands=|local (?:-a )?commands\b/);
});

test("the fish script hands what follows -- over to fish, and offers nothing else there", async () => {
  const { stdout } = await bench.run(["completion", "fish"]);
  expect(stdout).toMatch(/-n __holdfast_has_command -x -a '\(__holdfast_complete_command\)'/);
  const others = stdout.split("\n").filter((line) => line.includes("__fish_seen_subcommand_from"));
  expect(others.length).toBeGreaterThan(0);
  for (const line of others) expect(line).toContain("and not __holdfast_has_command");
});
