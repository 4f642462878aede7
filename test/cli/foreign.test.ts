/** S177, S179: text that others wrote into the store: huge, or made to drive a terminal, a log or a script. */
import { spawnSync } from "node:child_process";
import { pathToFileURL } from "node:url";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import type { Backend, Claim } from "../../src/contract/backend.ts";
import { openBackend } from "../../src/connect.ts";
import { LockBackendError, LockLostError, LockTimeoutError } from "../../src/contract/errors.ts";
import { clipped, printable, toPrintableJson } from "../../src/contract/foreign.ts";
import { clippedSnapshot } from "../../src/core/snapshot.ts";
import { type RedisServer, startRedis } from "../../src/lab/servers/redis.ts";
import { checkReason } from "../../src/core/options.ts";
import { checkOptions } from "../../src/core/options.ts";
import { BUILD } from "../dist.ts";
import { newClaim } from "../../src/testing/claim.ts";
import { Bench } from "./harness.ts";

const bench = new Bench();
let redis: RedisServer;
beforeAll(async () => {
  redis = await startRedis();
});
afterAll(async () => {
  bench.close();
  await redis.stop();
});

/** A claim that no door of ours lets in. */
function forged(name: string, part: Partial<Claim> = {}): Claim {
  return newClaim({ name, ttlMs: 3_600_000, holder: "other:1", queues: false, ...part });
}

const CSI = "\u009b2J";
const HOSTILE = `a\u001b[2J${CSI}\u202eb\u2028c\u2066\u0007\u{e0041}`;
// oxlint-disable-next-line no-control-regex
const RAW = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e\u2028\u2066\u{e0041}]/u;

describe.each(["file", "redis"] as const)("what stands in a store of others, on %s", (kind) => {
  let backend: Backend;
  let url: string;
  beforeAll(async () => {
    url = kind === "file" ? bench.url : redis.url;
    backend = await openBackend(url);
  });
  afterAll(() => backend.close());
  const at = (): { env: Record<string, string>; input: string } => ({ env: { HOLDFAST_URL: url }, input: "" });

  test("S177: a holder, a meta and a reason of 150 kB do not hang ls and show, and are cut", async () => {
    const long = `${"a".repeat(75_000)}${"://".repeat(10_000)}${"?".repeat(45_000)}`;
    const granted = await backend.attempt(forged("long", { holder: long, meta: { note: long, app: long } }));
    if (!granted.granted) throw new Error("not granted");
    const shown = await bench.run(["show", "long", "--json"], at());
    const { held } = JSON.parse(shown.stdout) as { held: { holder: string; meta: Record<string, string> }[] };
    expect(held[0]?.holder.length).toBe(200);
    expect(JSON.stringify(held[0]?.meta).length).toBeLessThan(4200);
    expect((await bench.run(["ls"], at())).stdout.length).toBeLessThan(10_000);
    await backend.forceRelease("long", granted.fence, long, long);
    const after = await bench.run(["show", "long", "--json"], at());
    const { forced } = JSON.parse(after.stdout) as { forced: { by: string; reason: string }[] };
    expect([forced[0]?.by.length, forced[0]?.reason.length]).toEqual([200, 1000]);
  });

  test("S179: control characters and directions are escaped in --json, tables, messages and -v", async () => {
    const granted = await backend.attempt(forged(HOSTILE, { holder: `${HOSTILE}:1`, meta: { note: HOSTILE } }));
    if (!granted.granted) throw new Error("not granted");
    const json = await bench.run(["show", HOSTILE, "--json"], at());
    expect(json.stdout).not.toMatch(RAW);
    expect(JSON.parse(json.stdout)).toMatchObject({
      name: HOSTILE,
      held: [{ holder: `${HOSTILE}:1`, meta: { note: HOSTILE } }],
    });
    const runs = [
      ["ls"],
      ["ls", "-q"],
      ["show", HOSTILE],
      ["wait", HOSTILE, "-n"],
      ["run", HOSTILE, "-n", "-v", "--", "true"],
      ["run", HOSTILE, "-n", "--json", "--", "true"],
      ["acquire", HOSTILE, "-n", "-v"],
      ["acquire", HOSTILE, "-n", "--json", "-v"],
      ["release", HOSTILE, "--fence", "1", "--reason", HOSTILE],
      ["renew", HOSTILE, "--fence", "1", "-v"],
    ];
    for (const args of runs) {
      const { stdout, stderr } = await bench.run(args, at());
      expect(stdout + stderr, args.join(" ")).not.toMatch(RAW);
    }
    await backend.forceRelease(HOSTILE, granted.fence, "test", HOSTILE);
    expect((await bench.run(["show", HOSTILE], at())).stdout).not.toMatch(RAW);
  });
});

test("S179: the library's own errors are safe to log; their fields are what they are", () => {
  const held = {
    name: "n",
    mode: "exclusive",
    limit: 1,
    holder: HOSTILE + "x".repeat(100_000),
    fence: 1n,
    heldMs: 1,
    remainingMs: 1,
    meta: {},
  } as const;
  const errors = [
    new LockTimeoutError(HOSTILE, 1, [held]),
    new LockLostError(HOSTILE, 1n, HOSTILE),
    new LockBackendError("redis", HOSTILE, HOSTILE),
  ];
  for (const error of errors) {
    expect(error.message).not.toMatch(RAW);
    expect(error.message.length).toBeLessThan(1000);
    expect(error.stack).not.toMatch(RAW);
    expect(error.lock).toBe(HOSTILE);
  }
});

describe("S177: caps at every door", () => {
  test("of the API", () => {
    expect(() => checkOptions({ meta: { note: "x".repeat(5000) } }, {})).toThrow("at most 4096 bytes");
    expect(() => checkReason("x".repeat(1001))).toThrow("1 to 1000 characters");
    expect(() => checkReason(" ")).toThrow("not blank");
    expect(() => checkReason("it hangs")).not.toThrow();
  });

  test.each([
    [["run", "a", "--reason", "x".repeat(5000), "--", "true"]],
    [["acquire", "a", "--reason", "x".repeat(4090)]],
    [["acquire", "a", "--meta", `note=${"x".repeat(4000)}`, "--meta", `more=${"x".repeat(200)}`]],
    [["release", "a", "--fence", "1", "--reason", "x".repeat(1001)]],
  ])("of the command line: %#", async (args) => {
    const { code, stderr } = await bench.run(args);
    expect({ code, stderr }).toMatchObject({
      code: 64,
      stderr: expect.stringMatching(/at most \d+ (bytes|characters)/),
    });
  });
});

test("S177: masking takes time in proportion to the text, whatever the text is", () => {
  // Where time grows with the square, each of these takes hours. A process of its own, because such a loop cannot be stopped.
  const script = `
    import { maskSecrets, secretsOf, withoutSecrets } from ${JSON.stringify(pathToFileURL(join(BUILD, "contract/mask-secrets.js")).href)};
    const parts = ["a", "a:", "://", "a://", "a://b:", "@", "?", "?a", "?a=", "&", "://:@", ":", "a,", "a:b@", "https://a:b@c ", "\\n", '"'];
    for (const part of parts) for (const url of ["", "redis://"]) {
      const text = url + part.repeat(1_000_000 / part.length);
      maskSecrets(text, ["secret"]); secretsOf(text); withoutSecrets(text);
    }`;
  const { status, stderr } = spawnSync(process.execPath, ["--input-type=module", "-e", script], {
    encoding: "utf8",
    timeout: 180_000,
  });
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
});

describe("helpers", () => {
  test("a text is never cut inside a character", () => {
    expect([clipped("abc", 3), clipped("abcd", 3), clipped("a😀b", 3)]).toEqual(["abc", "ab…", "a…"]);
  });

  test("a snapshot that fits is left as it is", () => {
    const held = [{ ...forged("x"), fence: 1n, heldMs: 1, remainingMs: 1 }];
    expect(clippedSnapshot({ held, pending: [], forced: [] }).held).toBe(held);
  });

  test("JSON keeps its value, and a bigint becomes a string", () => {
    expect(JSON.parse(toPrintableJson({ text: HOSTILE, fence: 2n ** 60n }))).toEqual({
      text: HOSTILE,
      fence: String(2n ** 60n),
    });
    expect(printable(toPrintableJson(HOSTILE))).toBe(toPrintableJson(HOSTILE));
  });
});
