import { execFile } from "node:child_process";
import { promisify } from "node:util";

import { expect, test } from "vitest";

test.each(["sql", "lua"])("the modules generated from %s are what their sources say", async (kind) => {
  const { stderr } = await promisify(execFile)(process.execPath, [`scripts/build-${kind}.mjs`, "--check"]);
  expect(stderr).toBe("");
});
