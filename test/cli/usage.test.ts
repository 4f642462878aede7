import { afterAll, describe, expect, test } from "vitest";

import { COMMANDS } from "../../src/cli/commands/all.ts";
import type { Io } from "../../src/cli/io.ts";
import { reportFailure } from "../../src/cli/report-error.ts";
import { UsageError } from "../../src/cli/usage-error.ts";
import { ArgumentError } from "../../src/contract/argument-error.ts";
import { LockBackendError, LockLostError } from "../../src/contract/errors.ts";
import { helpFor } from "../../src/contract/help.ts";
import { Bench, SHIPPED } from "./harness.ts";

const bench = new Bench();
afterAll(() => bench.close());

describe.concurrent("help", () => {
  test("without a command it lists all commands on stderr and exits with 64", async () => {
    const { code, stdout, stderr } = await bench.run([]);
    expect(code).toBe(64);
    expect(stdout).toBe("");
    for (const { name, summary } of COMMANDS) expect(stderr).toContain(`${name.padEnd(10)}  ${summary}`);
  });

  test.each(["--help", "-h", "help"])("%s prints the same on stdout and exits with 0", async (flag) => {
    const { code, stdout, stderr } = await bench.run([flag]);
    expect(code).toBe(0);
    expect(stderr).toBe("");
    expect(stdout).toContain("holdfast run hello --");
  });

  test.each(COMMANDS.map(({ name }) => name).filter((name) => name !== "lab"))(
    "%s --help answers with usage, examples and exit codes, also of the program as it is shipped",
    async (name) => {
      const { code, stdout } = await bench.run([name, "--help"], { main: SHIPPED });
      expect(code).toBe(0);
      expect(stdout).toContain(`holdfast ${name}`);
      expect(stdout).toContain("Examples");
      expect(stdout).toMatch(/Exit codes[\s\S]*64 +wrong usage/);
    },
  );

  test("lab --help answers in its own words", async () => {
    const { code, stdout } = await bench.run(["lab", "--help"], { main: SHIPPED });
    expect(code).toBe(0);
    expect(stdout).toContain("holdfast lab run");
  });

  test("S105: run --help prints the whole table of exit codes", async () => {
    const { stdout } = await bench.run(["run", "--help"]);
    for (const code of ["*", "64", "69", "70", "75", "76", "126", "127", "128+n"]) {
      expect(stdout).toMatch(new RegExp(`^  ${code.replaceAll(/[*+]/g, "\\$&")} +\\S`, "m"));
    }
  });

  test.each([
    ["renew", /76 +the lease has ended or was given back: stop what it protected/, /while the command ran/],
    ["release", /76 +the lease had ended by itself: others may have held the lock since/, /while the command ran/],
    ["release", /^  1 +with --reason: there is no such lease/m, /see the description above/],
    ["wait", /75 +it is still held, and the time is over/, /-E/],
    ["show", /^  1 +it is free/m, /see the description above/],
    ["ls", /70 +a fault in holdfast itself/, /76/],
  ])("S147: the exit codes of %s are described in its own words: %s", async (name, right, wrong) => {
    const { stdout } = await bench.run([name, "--help"]);
    expect(stdout).toMatch(right);
    expect(stdout).not.toMatch(wrong);
  });

  test("help COMMAND is COMMAND --help", async () => {
    expect((await bench.run(["help", "wait"])).stdout).toBe((await bench.run(["wait", "--help"])).stdout);
  });

  test("--help after -- belongs to the command", async () => {
    const { code, stdout } = await bench.run(["run", "a", "--", "sh", "-c", 'echo "$1"', "sh", "--help"]);
    expect({ code, stdout }).toEqual({ code: 0, stdout: "--help\n" });
  });
});

describe.concurrent("wrong usage exits with 64 and says what was meant", () => {
  test.each([
    [["rnu"], 'there is no command "rnu"; did you mean run?'],
    [["relaese", "x"], "did you mean release?"],
    [["--quiet"], "the command comes first"],
    [["run", "a", "--wiat", "3", "--", "true"], "there is no flag --wiat; did you mean --wait?"],
    [["run", "a", "-x", "--", "true"], "there is no flag -x"],
    [["run", "a", "--wait", "--", "true"], "--wait needs a value"],
    [["run", "a", "--wait", "-n", "--", "true"], "--wait needs a value"],
    [["run", "a", "--wait", "soon", "--", "true"], '--wait "soon" is not a duration'],
    [["run", "a", "--shared=yes", "--", "true"], "--shared takes no value"],
    [["run", "a", "--ttl", "1s", "--ttl", "2s", "--", "true"], "--ttl is given twice"],
    [["run", "a", "--ttl", "25h", "--", "true"], "--ttl must be at most 24 h"],
    [["run", "a", "--ttl", "0", "--", "true"], "--ttl must be at least"],
    [["run", "a", "--limit", "0", "--", "true"], "--limit must be a whole number"],
    [["run", "a", "--limit", "2", "-s", "--", "true"], "--shared and --limit exclude each other"],
    [["run", "a", "-n", "-w", "3s", "--", "true"], "--nonblock and --wait exclude each other"],
    [["run", "a", "--ttl", "2s", "--grace", "5s", "--", "true"], "--grace must be at most half"],
    [["run", "a", "--min-hold", "2s", "--max-hold", "1s", "--", "true"], "--min-hold must be at most --max-hold"],
    [["run", "a", "-E", "256", "--", "true"], "--conflict-exit-code must be a whole number from 0 to 255"],
    [["run", "a", "--meta", "x", "--", "true"], "is not NAME=TEXT"],
    [["run", "a", "true"], '"true" is one argument too many; put the command after --'],
    [["run", "--", "true"], "which lock? Give its name"],
    [["run", "a"], "what should be run? Put the command after --"],
    [["run", "a", "--"], "what should be run?"],
    [["show"], "which lock?"],
    [["release", "a"], "which lease?"],
    [["release", "a", "--fence", "x"], "is not a fence"],
    [["release", "a", "--fence", "1", "--reason", " "], "--reason must not be empty"],
    [["renew", "a"], "which lease?"],
    [["top"], "top needs a terminal"],
    [["top", "--by", "wait"], "top needs a terminal"],
    [["top", "--by", "size"], "--by is one of name, held, left, waiters, fence, wait"],
    [["top", "--by", "wait", "--for", "1s"], "--for goes with --by wait and --json"],
    [["completion", "tcsh"], "for which shell? bash, zsh, fish"],
    [["ls", "--url", "mysql://x"], "mysql:"],
    // S145: an unset variable in a script must not mean "this machine only".
    [["ls", "--url", ""], "--url is empty"],
    [["ls", "--url="], "--url is empty"],
    [["run", "a", "--url", " ", "--", "true"], "--url is empty"],
    // S147
    [["ls", "--url", "memory:x?ttl=1"], "memory: has none"],
    [["ls", "--url", "file:///tmp/x?mode=1"], "file: has none"],
    [["ls", "--url", "zk://h:1/?no=1"], '"no"'],
    [["ls", "--url", "redlock://h:1,i:2,j:3?no=1"], 'got "no"'],
    [["ls", "--url", "redis://h:1?no=1"], 'got "no"'],
  ])("%j", async (args, message) => {
    const { code, stdout, stderr } = await bench.run(args);
    expect(stderr).toContain(message);
    expect({ code, stdout }).toEqual({ code: 64, stdout: "" });
  });

  test.each(["", "  "])("S145: HOLDFAST_URL=%j", async (url) => {
    for (const args of [
      ["ls"],
      ["run", "a", "--", "true"],
      ["acquire", "a"],
      ["release", "a", "--fence", "1"],
      ["doctor"],
    ]) {
      const { code, stderr } = await bench.run(args, { env: { HOLDFAST_URL: url } });
      expect({ code, stderr }).toMatchObject({ code: 64, stderr: expect.stringContaining("HOLDFAST_URL") });
    }
  });

  test("with --json it is a document with a stable code", async () => {
    const { code, stdout } = await bench.run(["show", "--json"]);
    expect(code).toBe(64);
    expect(JSON.parse(stdout)).toMatchObject({ error: { code: "ERR_USAGE", exit: 64, help: helpFor("ERR_USAGE") } });
  });
});

test("version says what is installed, for people and for scripts", async () => {
  const { stdout } = await bench.run(["--version"]);
  expect(stdout).toMatch(/^holdfast \d+\.\d+\.\d+ \(node v/);
  expect(JSON.parse((await bench.run(["version", "--json"])).stdout)).toMatchObject({ node: process.version });
});

test("a wrong argument is known by its code: a TypeError is a fault of the program, whatever it says", () => {
  const documents: unknown[] = [];
  const io = {
    json: (document: unknown) => documents.push(document),
    note: () => undefined,
    mask: (text: string) => text,
    style: (_stream: string, _style: string, text: string) => text,
  } as unknown as Io;
  const report = (error: Error): number => reportFailure(io, error, { json: true, verbose: false });
  expect(report(new ArgumentError("a text that begins with anything"))).toBe(64);
  expect(report(new TypeError("Expected `name` to be a string"))).toBe(70);
  expect(report(new TypeError("Unknown option `x`"))).toBe(70);
  expect(documents).toMatchObject([
    { error: { code: "ERR_USAGE", exit: 64 } },
    { error: { code: "ERR_INTERNAL", exit: 70 } },
    { error: { code: "ERR_INTERNAL", exit: 70 } },
  ]);
});

test("a failure names the page of its code once, below what it says; wrong usage names its --help instead", () => {
  const notes: string[] = [];
  const io = {
    json: () => undefined,
    note: (line: string) => notes.push(line),
    mask: (text: string) => text,
    style: (_stream: string, _style: string, text: string) => text,
  } as unknown as Io;
  const report = (error: Error): readonly string[] => {
    notes.length = 0;
    reportFailure(io, error, { json: false, verbose: false });
    return notes.filter((line) => line.includes("More:") || line.includes("Try:"));
  };
  expect(report(new LockLostError("a", 1n, "it was"))).toEqual([`  More: ${helpFor("ERR_LOCK_LOST")}`]);
  expect(report(new LockBackendError("redis", "a", "away"))).toEqual([`  More: ${helpFor("ERR_LOCK_BACKEND")}`]);
  expect(report(new TypeError("a fault"))).toEqual([`  More: ${helpFor("ERR_INTERNAL")}`]);
  expect(report(new UsageError("wrong", "run"))).toEqual(["  Try: holdfast run --help"]);
});
