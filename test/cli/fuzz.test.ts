/**
 * Seeded random input for everything that the command line parses: flags, durations, fences, claim files, and the URLs of every
 * scheme. Never a stack trace, never a hang, 64 for wrong usage. A failure prints its seed and the smallest input.
 */
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { loadClaim, storeClaim } from "../../src/cli/saved-claims.ts";
import { type Command } from "../../src/cli/command.ts";
import { UsageError } from "../../src/cli/usage-error.ts";
import { COMMANDS } from "../../src/cli/commands/all.ts";
import { parseDurationMs } from "../../src/cli/duration-flag.ts";
import { fenceOf } from "../../src/cli/fence-flag.ts";
import { COMMON_FLAGS, parseFlags } from "../../src/cli/flags.ts";
import type { Io } from "../../src/cli/io.ts";
import { readLockFlags } from "../../src/cli/lock-flags.ts";
import { maskSecrets, secretsOf, withoutSecrets } from "../../src/contract/mask-secrets.ts";
import { parseUrl as parseQuorum } from "../../src/backends/quorum/open.ts";
import { parseUrl as parseRedis } from "../../src/backends/redis/url.ts";
import { resolveUrl } from "../../src/backends/url-source.ts";
import { parseUrl as parseZooKeeper } from "../../src/backends/zookeeper/open.ts";
import { newClaim } from "../../src/testing/claim.ts";
import { Bench } from "./harness.ts";

const bench = new Bench();
afterAll(() => bench.close());
const SEED = Number(process.env["HOLDFAST_SEED"] ?? 20_261_115);
const options = (numRuns: number): fc.Parameters<unknown> => ({ seed: SEED, numRuns });

/** Text as people, scripts and enemies type it. */
const text = fc.oneof(
  fc.string({ unit: "binary", maxLength: 30 }),
  fc.string({ maxLength: 30 }),
  fc.constantFrom(
    "",
    " ",
    "-",
    "--",
    "-1",
    "0",
    "1",
    "1s",
    "1h30m",
    "forever",
    "9".repeat(400),
    "NaN",
    "__proto__",
    "constructor",
  ),
);
const PIECES = [
  "://",
  ":",
  "@",
  "/",
  "?",
  "#",
  "&",
  "=",
  ",",
  "[",
  "]",
  "%",
  "%4",
  "%zz",
  "..",
  "\\",
  " ",
  "\n",
  "\0",
  "é",
  "😀",
  "\ud800",
];
const urlish = fc
  .tuple(
    fc.constantFrom(
      "redis",
      "rediss",
      "redis+sentinel",
      "redis+cluster",
      "redis+unix",
      "redlock",
      "zk",
      "zookeeper",
      "x",
    ),
    fc.array(
      fc.oneof(
        fc.constantFrom(...PIECES),
        fc.string({ maxLength: 6 }),
        fc.constantFrom(
          "host",
          "127.0.0.1",
          "::1",
          "6379",
          "99999",
          "user",
          "db",
          "prefix",
          "maxTtl",
          "session",
          "30s",
          "true",
          "client",
        ),
      ),
      { maxLength: 14 },
    ),
  )
  .map(([scheme, parts]) => `${scheme}://${parts.join("")}`);

/** Runs `parse`, which may refuse with a `TypeError` for people, and with nothing else. */
function refusesPolitely(parse: () => unknown): void {
  try {
    parse();
  } catch (error) {
    if (error instanceof UsageError) return;
    expect(error).toBeInstanceOf(TypeError);
    expect((error as Error).message).toMatch(/^(Expected|Unknown)\b/);
  }
}

describe("URLs", () => {
  test.each([
    ["redis", parseRedis],
    ["redlock", parseQuorum],
    ["zk", parseZooKeeper],
  ])("%s: parsed, or refused with a TypeError that shows no password", (_, parse) => {
    fc.assert(
      fc.property(urlish, (url) => refusesPolitely(() => parse(url))),
      options(2000),
    );
    fc.assert(
      fc.property(urlish, (url) => {
        const at = url.replace("://", "://ann:hunter2-secret@");
        try {
          parse(at);
        } catch (error) {
          expect((error as Error).message).not.toContain("hunter2-secret");
        }
      }),
      options(2000),
    );
  });

  test("a URL without its secrets has none left, and masking shows none", () => {
    fc.assert(
      fc.property(urlish, fc.string({ minLength: 4, maxLength: 12 }), (url, password) => {
        const encoded = encodeURIComponent(password).replaceAll(".", "%2E");
        const marked = `Zq9${encoded}Zq9`;
        const whole = url.replace("://", `://ann:${marked}@`);
        expect(maskSecrets(whole)).not.toContain(marked);
        expect(maskSecrets(`x ${marked} y`, secretsOf(whole))).not.toContain(marked);
        expect(withoutSecrets(whole)).not.toContain(marked);
      }),
      options(3000),
    );
  });

  test("where a URL comes from", () => {
    fc.assert(
      fc.property(fc.constantFrom("", "@", "@env:", "@file:"), text, (start, rest) => {
        refusesPolitely(() => resolveUrl(start + rest, { A: "x", "": "y" }, "--url"));
      }),
      options(2000),
    );
  });
});

describe("flags", () => {
  let commands: readonly Command[] = [];
  beforeAll(async () => {
    const loaded = await Promise.all(COMMANDS.map((entry) => entry.load()));
    commands = loaded.filter((command) => typeof command !== "function");
  });

  test("of every command: read, or refused with a UsageError", () => {
    const flag = fc.oneof(
      fc
        .constantFrom(...Object.keys(COMMON_FLAGS), "ttl", "wait", "limit", "meta", "fence", "claim", "no-json")
        .map((name) => `--${name}`),
      fc.constantFrom("-n", "-w", "-nw", "-E", "-q=1", "-", "---", "--="),
      text,
      fc
        .tuple(fc.constantFrom("--ttl=", "--wait=", "--limit=", "--meta=", "--fence=", "-w"), text)
        .map((pair) => pair.join("")),
    );
    fc.assert(
      fc.property(fc.nat(), fc.array(flag, { maxLength: 8 }), (at, args) => {
        const { spec } = commands[at % commands.length]!;
        refusesPolitely(() => {
          const flags = parseFlags(spec.name, spec.flags, args);
          readLockFlags(flags, spec.name, { ttlMs: 1000 });
          fenceOf(flags, spec.name);
          flags.integer("limit", { min: 0, max: 9 });
        });
      }),
      options(3000),
    );
  });

  test("durations and fences: a whole number in range, or none", () => {
    fc.assert(
      fc.property(
        fc.oneof(
          text,
          fc
            .array(fc.constantFrom("1", "9", ".", "ms", "s", "m", "h", "d", "e"), { maxLength: 9 })
            .map((parts) => parts.join("")),
        ),
        (word) => {
          const ms = parseDurationMs(word);
          expect(ms === undefined || ms === Infinity || (Number.isSafeInteger(ms) && ms >= 0)).toBe(true);
        },
      ),
      options(3000),
    );
  });
});

describe("claim files", () => {
  const dir = join(bench.dir, "claims");
  const io = { env: { HOLDFAST_STATE_DIR: dir } } as unknown as Io;
  const claim = newClaim({ id: "x".repeat(22), name: "n", ttlMs: 1000, holder: "h:1" });

  test("whatever stands in one: the claim that was stored, or none, never an error", () => {
    mkdirSync(dir, { recursive: true });
    storeClaim(io, "file:", { claim, fence: 7n, state: "held" });
    const [file = ""] = readdirSync(dir);
    const whole = JSON.stringify({ claim, fence: "7", state: "held" });
    const bytes = fc.oneof(
      fc.uint8Array({ maxLength: 200 }).map((array) => Buffer.from(array)),
      fc.json().map((json) => Buffer.from(json)),
      fc.nat(whole.length).map((at) => Buffer.from(whole.slice(0, at))),
      fc.tuple(fc.nat(whole.length - 1), fc.nat(255)).map(([at, byte]) => {
        const mutated = Buffer.from(whole);
        mutated[at] = byte;
        return mutated;
      }),
      fc
        .tuple(fc.constantFrom(...Object.keys(claim)), fc.anything({ withBigInt: false }))
        .map(([field, value]) =>
          Buffer.from(JSON.stringify({ claim: { ...claim, [field]: value }, fence: "7", state: "held" })),
        ),
    );
    fc.assert(
      fc.property(bytes, (content) => {
        writeFileSync(join(dir, file), content);
        const found = loadClaim(io, "file:", "n", 7n);
        if (found === undefined) return;
        expect(found.fence).toBe(7n);
        expect(found.claim.name).toBe("n");
        expect(found.claim.id).toMatch(/^[\w-]{22}$/);
        expect(Object.values(found.claim.meta).every((value) => typeof value === "string")).toBe(true);
      }),
      options(1500),
    );
  });
});

describe("the program itself", () => {
  test("random arguments: a stable exit code, and never a stack trace", async () => {
    const argument = text.filter((word) => !word.includes("\0") && !/^(run|elect|acquire|top|wait|lab)$/.test(word));
    const args = fc.array(
      fc.oneof(
        argument,
        fc.constantFrom(
          "ls",
          "show",
          "release",
          "renew",
          "completion",
          "version",
          "doctor",
          "--json",
          "--url",
          "-v",
          "--fence",
        ),
      ),
      { maxLength: 6 },
    );
    const samples = fc.sample(args, { seed: SEED, numRuns: 24 });
    const one = async (sample: readonly string[]): Promise<void> => {
      const { code, stdout, stderr } = await bench.run(sample, { env: { HOLDFAST_URL: "memory:" } });
      const about = JSON.stringify(sample);
      expect([0, 1, 64, 69], about).toContain(code);
      expect(stdout + stderr, about).not.toMatch(/^ +at \S/m);
    };
    for (let at = 0; at < samples.length; at += 4) await Promise.all(samples.slice(at, at + 4).map(one));
  });
});
