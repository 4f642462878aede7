import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";

import { startGated as gate } from "../../src/cli/run/gated-start.ts";
import { findProgram } from "../../src/cli/run/find-program.ts";
import { BUILD } from "../dist.ts";
import { Bench, isRunning, until } from "./harness.ts";

const bench = new Bench();
afterAll(() => bench.close());

/** Starts a gated command in a process of its own, which then does `then` to `gated`. Returns the gate's pid. */
function startGated(then: string): number {
  const script = `
    import { startGated } from ${JSON.stringify(join(BUILD, "cli/run/gated-start.js"))};
    const gated = await startGated({ path: "/bin/sh", args: ["-c", "echo ran >> ran"], env: process.env, ownGroup: true });
    console.log(gated.family.pid);
    ${then}`;
  const { stdout, stderr } = spawnSync(process.execPath, ["--input-type=module", "-e", script], {
    cwd: bench.dir,
    encoding: "utf8",
  });
  if (!/^\d+\n$/u.test(stdout)) throw new Error(`no gate: ${stderr}`);
  return Number(stdout);
}

test("S103: a command whose holdfast dies before the gate opens never runs", async () => {
  const pid = startGated(
    `await new Promise((resolve) => setTimeout(resolve, 200)); process.kill(process.pid, "SIGKILL");`,
  );
  await until(() => !isRunning(pid), "the gate has ended");
  expect(existsSync(bench.path("ran"))).toBe(false);
});

test("it runs once the gate is opened, under the pid that was known before", async () => {
  startGated("gated.open(); await gated.ended;");
  expect(bench.lines("ran")).toEqual(["ran"]);
});

test("a program is looked for as execvp does", () => {
  bench.write("tool", "#!/bin/sh\n");
  const path = `/nonexistent:${bench.dir}:/bin`;
  expect(findProgram("tool", path)).toEqual({ path: bench.path("tool") });
  expect(findProgram(bench.path("tool"), "")).toEqual({ path: bench.path("tool") });
  expect(findProgram("no-such-tool", path)).toEqual({ problem: "missing" });
  expect(findProgram("./no-such-tool", path)).toEqual({ problem: "missing" });
  expect(findProgram("/etc/passwd", path)).toEqual({ problem: "not executable" });
});

test("S144: values of variables that a shell would drop are in no process's arguments while the gate waits", async () => {
  const secret = "hunter2-of-npm";
  const env = { ...process.env, "npm_config_//host/:_authToken": secret, "A.B": `${secret}\nand 'more' $HOME` };
  const print = `fs.writeFileSync("${bench.path("parcels")}", [process.env["npm_config_//host/:_authToken"], process.env["A.B"]].join("|") + "\\n")`;
  const gated = await gate({ path: process.execPath, args: ["-e", print], env, ownGroup: true });
  // It waits: nothing but the pipe can end that.
  await until(() => readFileSync(`/proc/${gated.family.pid}/cmdline`, "latin1").includes("sh"), "the gate is there");
  const shown = readFileSync(`/proc/${gated.family.pid}/cmdline`, "latin1");
  expect(shown).toContain("parcels");
  expect(shown).not.toContain(secret);
  gated.open();
  expect(await gated.ended).toMatchObject({ code: 0 });
  expect(bench.lines("parcels").join("\n")).toBe(`${secret}|${secret}\nand 'more' $HOME`);
});
