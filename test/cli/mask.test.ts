import { afterAll, describe, expect, test } from "vitest";

import { maskSecrets, secretsOf } from "../../src/contract/mask-secrets.ts";
import { Bench } from "./harness.ts";

const bench = new Bench();
afterAll(() => bench.close());

describe("passwords are masked", () => {
  test.each([
    ["redis://:hunter2@db:6379/0", "redis://:***@db:6379/0"],
    ["redis://ann:hunter2@db", "redis://ann:***@db"],
    ["redis+sentinel://ann:p%40ss@a:1,b:2/main", "redis+sentinel://ann:***@a:1,b:2/main"],
    ["redlock://u:one1@a:1,b:2?password=hunter2&quorum=2", "redlock://u:***@a:1,b:2?password=***&quorum=2"],
    ["redis://a?sentinel_password=hunter2", "redis://a?sentinel_password=***"],
    ["connect to redis://:a@b@host failed", "connect to redis://:***@host failed"],
    ["zk://h:2181/chroot?auth=digest:me:hunter2", "zk://h:2181/chroot?auth=***"],
    ["file:///var/lib/locks", "file:///var/lib/locks"],
  ])("%s", (text, masked) => {
    expect(maskSecrets(text)).toBe(masked);
  });

  test.each([
    ["redis://:pa,ss-word@db", "pa,ss-word"],
    ["redlock://:p@a:1,b:2,v:pa,ss-word@c:3", "pa,ss-word"],
  ])("with a comma in it: %s", (url, password) => {
    expect(secretsOf(url)).toContain(password);
  });

  test("also where a client library quotes them without the URL, decoded or not", () => {
    const secrets = secretsOf("redis://ann:p%40ss-word@db");
    expect(maskSecrets('WRONGPASS for "p@ss-word" (p%40ss-word)', secrets)).toBe('WRONGPASS for "***" (***)');
  });
});

describe("the password of a URL never leaves the CLI", () => {
  const secret = "hunter2-of-the-store";
  test.each([
    ["ls", ["ls"]],
    ["ls --json", ["ls", "--json"]],
    ["ls -v", ["ls", "-v"]],
    ["show", ["show", "x", "--json", "-v"]],
    ["run", ["run", "x", "-w", "1s", "-v", "--", "true"]],
    ["run --json", ["run", "x", "-w", "1s", "--json", "--", "true"]],
    ["acquire", ["acquire", "x", "-w", "1s", "--json", "-v"]],
    ["release", ["release", "x", "--fence", "1", "--reason", "why", "--json", "-v"]],
    ["doctor", ["doctor", "--json", "-v"]],
  ])("%s", async (_, args) => {
    for (const url of [`redis://ann:${secret}@127.0.0.1:1/0`, `nosuch://ann:${secret}@host/?password=${secret}`]) {
      const { code, stdout, stderr } = await bench.run(args, { env: { HOLDFAST_URL: url } });
      expect(code).not.toBe(0);
      expect(stdout + stderr).not.toContain(secret);
    }
  });
});
