/** A URL's file that is no file: nothing waits for ever, and nothing is read without an end. */
import { spawnSync } from "node:child_process";
import { afterAll, describe, expect, test } from "vitest";

import { Bench, MAIN } from "./harness.ts";

const bench = new Bench();
afterAll(() => bench.close());

/** The limit only ends what would go on for ever. */
function holdfast(args: string): { readonly status: number | null; readonly stderr: string } {
  const script = `${process.execPath} ${MAIN} ls ${args}`;
  return spawnSync("bash", ["-c", `exec timeout -s KILL 40 ${script}`], { encoding: "utf8" });
}

describe("--url-file", () => {
  test("a pipe without a writer is refused", () => {
    spawnSync("mkfifo", [bench.path("fifo")]);
    expect(holdfast(`--url-file ${bench.path("fifo")}`)).toMatchObject({
      status: 64,
      stderr: expect.stringContaining("to hold one URL and nothing else"),
    });
  });

  test("a device without an end is refused", () => {
    expect(holdfast("--url-file /dev/zero")).toMatchObject({ status: 64 });
  });

  test("a pipe whose writer takes a moment is read", () => {
    const script = `${process.execPath} ${MAIN} ls --url-file <(read -t 2 x < <(sleep 3); echo ${bench.url})`;
    expect(spawnSync("bash", ["-c", script], { encoding: "utf8" })).toMatchObject({ status: 0 });
  });
});

test("a NUL character in a file: URL is wrong usage", () => {
  expect(holdfast("--url file:///tmp/a%00b")).toMatchObject({
    status: 64,
    stderr: expect.stringContaining("NUL character"),
  });
});
