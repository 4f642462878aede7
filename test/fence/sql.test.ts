import { execFile } from "node:child_process";
import { promisify } from "node:util";

import { expect, test } from "vitest";

test("the generated SQL module is what the .sql files say", async () => {
  const { stderr } = await promisify(execFile)(process.execPath, ["scripts/build-sql.mjs", "--check"]);
  expect(stderr).toBe("");
});
