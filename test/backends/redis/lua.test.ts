import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { startRedis } from "../../../src/lab/servers/redis.ts";
import * as scripts from "../../../src/backends/redis/generated/scripts.ts";
import { Clients } from "./lab.ts";

interface BuildLua {
  readonly headerFaults: (name: string, header: string, code: string) => string[];
  readonly splitHeader: (text: string) => { header: string; code: string };
}

const root = join(import.meta.dirname, "../../..");
const script = join(root, "scripts/build-lua.mjs");
const { headerFaults, splitHeader } = (await import(script)) as BuildLua;

describe("scripts", () => {
  test("the generated modules are what the .lua files say", () => {
    expect(execFileSync(process.execPath, [script, "--check"], { encoding: "utf8" })).toContain("up to date");
  });

  test("a script's SHA1 is the one that the server computes", async () => {
    await using server = await startRedis();
    await using testClients = new Clients();
    const client = testClients.client(server.port);
    const all = Object.values(scripts);
    expect(all.length).toBeGreaterThan(7);
    for (const { sha, source } of all) expect(await client.script("LOAD", source)).toBe(sha);
  });

  test("what scripts share is in the generated module once", () => {
    const text = readFileSync(join(root, "src/backends/redis/generated/scripts.ts"), "utf8");
    const lines = text.split("\n").filter((line) => /^local function \w+/u.test(line));
    expect(lines.length).toBeGreaterThan(30);
    expect(lines.filter((line, at) => lines.indexOf(line) !== at)).toEqual([]);
  });

  const lies: readonly (readonly [string, string, string])[] = [
    [
      "a key that is used but not named",
      "-- Do it.\n--\n-- Returns 1.\n\nreturn KEYS[1]",
      "KEYS[1] is used but not named",
    ],
    [
      "an argument that is named but not used",
      "-- Do it.\n--\n-- ARGV[2] the id\n--\n-- Returns 1.\n\nreturn 1",
      "ARGV[2] is named in the header but not used",
    ],
    [
      "a loop over keys that the header does not tell",
      "-- Do it.\n--\n-- Returns 1.\n\nfor i, key in ipairs(KEYS) do end",
      "KEYS[n] is used but not named",
    ],
    ["no word on what is returned", "-- Do it.\n\nreturn 1", "does not say what is returned"],
    ["no purpose", "--\n-- Returns 1.\n\nreturn 1", "does not start with what the script does"],
  ];
  for (const [what, text, fault] of lies) {
    test(`the build refuses ${what}`, () => {
      const { header, code } = splitHeader(text);
      expect(headerFaults("it", header, code).join("\n")).toContain(fault);
    });
  }

  test("the build accepts a header that tells the truth", () => {
    const { header, code } = splitHeader(
      "-- Do it.\n--\n-- KEYS[1] the lock\n-- ARGV[1..] ids\n--\n-- Returns 1.\n\nreturn redis.call('DEL', KEYS[1], ARGV[i + 1])",
    );
    expect(headerFaults("it", header, code)).toEqual([]);
  });
});
