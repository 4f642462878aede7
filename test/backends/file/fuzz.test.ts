/**
 * Everything that is read from files or sockets, fed with what this backend did not write: random and changed bytes, files cut
 * short, other things instead of them. It is never believed, never waited for, and every error is one of ours.
 * `HOLDFAST_FUZZ_SEED` and `HOLDFAST_FUZZ_RUNS` choose another run; a failure names its seed.
 */
import { execFileSync } from "node:child_process";
import {
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { expect, test } from "vitest";
import { LockBackendError } from "../../../src/contract/errors.ts";
import { ForeignError } from "../../../src/backends/file/disk.ts";
import { thisProcess } from "../../../src/backends/file/process-identity.ts";
import { fromDirectory } from "../../../src/backends/file/epochs.ts";
import { parseChecked, withChecksum } from "../../../src/backends/file/checked-text.ts";
import {
  FREE,
  type Entry,
  type Epoch,
  type Holder,
  type Kept,
  type LeaseFacts,
  type LockState,
  type OutcomeRecord,
  parseEntry,
  parseEpoch,
  parseForced,
  parseLeaseFacts,
  writeEntry,
} from "../../../src/backends/file/records.ts";
import { parseCompanions } from "../../../src/backends/file/companions.ts";
import { seeded, type SeededChance } from "../../../src/testing/seeded-random.ts";
import { claim, granted, Scratch } from "./peers.ts";

const SEED = Number(process.env["HOLDFAST_FUZZ_SEED"] ?? 1);
const RUNS = Number(process.env["HOLDFAST_FUZZ_RUNS"] ?? 60);

const facts: LeaseFacts = {
  kind: "lease",
  id: "lease-of-16-char",
  instance: "instance-16-char",
  process: thisProcess(),
  mode: "exclusive",
  limit: 1,
  ttlMs: 30_000,
  lockDelayMs: 0,
  minHoldMs: 0,
  holder: "web-3:812",
  meta: { task: "import" },
};
const holder: Holder = { facts, fence: 1_700_000_000_000_000, run: 64, sinceMs: 1, sinceWallMs: 2 };
const forced = { name: "a lock", fence: 1_700_000_000_000_000, by: "ops", reason: "stuck", wallMs: 1 };
const kept: Kept = { ...holder, untilMs: 1, untilWallMs: 2, process: thisProcess(), why: "lockDelay" };
const outcome: OutcomeRecord = {
  claim: "claim".padEnd(22, "x"),
  fence: 1_700_000_000_000_000,
  holder: "web-3:812",
  keepMs: 1000,
  file: "value".padEnd(16, "x"),
  untilMs: 1,
  untilWallMs: 2,
  process: thisProcess(),
};
const state: LockState = { ...FREE, holders: [holder], kept: [kept], forced: [forced], outcome };
const epoch: Epoch = {
  kind: "epoch",
  format: 2,
  id: "1-epoch",
  name: "a lock",
  base: 1,
  stride: 64,
  boot: "boot",
  state: { ...state, forced: [] },
};
const companions = { process: thisProcess(), companions: [{ pid: 812, start: "1" }] };
const companionsText = withChecksum({ life: thisProcess(), companions: companions.companions });

interface Reader {
  readonly value: object;
  readonly text: string;
  readonly read: (text: string) => unknown;
}

function entry(value: Entry): Reader {
  return { value, text: writeEntry(value), read: (text) => parseEntry("path", text, 2) };
}

const READERS: Readonly<Record<string, Reader>> = {
  "lease file": { value: facts, text: writeEntry(facts), read: (text) => parseLeaseFacts("path", text) },
  "lease file as an entry": entry(facts),
  "state entry": entry(state),
  "last entry": entry({ kind: "gone" }),
  epoch: { value: epoch, text: writeEntry(epoch), read: (text) => parseEpoch("path", text) },
  forced: { value: forced, text: withChecksum(forced), read: parseForced },
  companions: { value: companions, text: companionsText, read: parseCompanions },
};

test("records are written with the names that 0.1 and 0.2 use, so versions understand each other's leases", () => {
  const { kind: _kind, process: life, ...rest } = facts;
  const owner = { ...rest, kind: "owner", life };
  const { facts: _facts, ...times } = holder;
  const { facts: _kept, process: keptLife, ...keptTimes } = kept;
  const { process: outcomeLife, ...outcomeRest } = outcome;
  expect(parseChecked(writeEntry(facts))).toEqual(owner);
  expect(parseChecked(writeEntry(epoch))).toEqual({
    ...epoch,
    state: {
      ...epoch.state,
      holders: [{ ...times, owner }],
      kept: [{ ...keptTimes, owner, life: keptLife }],
      outcome: { ...outcomeRest, life: outcomeLife },
    },
  });
});

/** Changes a text in one of many ways. */
function mutate(chance: SeededChance, text: string, other: string): string {
  const bytes = Buffer.from(text);
  const at = Math.floor(chance.between(0, bytes.length));
  const length = 1 + Math.floor(chance.between(0, chance.pick([1, 4, 40, bytes.length])));
  const noise = Buffer.from(Array.from({ length }, () => Math.floor(chance.between(0, 256))));
  const [before, after] = [bytes.subarray(0, at), bytes.subarray(at)];
  return chance
    .pick([
      () => noise,
      () => before,
      () => Buffer.concat([before, after.subarray(length)]),
      () => Buffer.concat([before, noise, after]),
      () => Buffer.concat([before, noise, after.subarray(length)]),
      () => Buffer.concat([before, after.subarray(0, length), after]),
      () => Buffer.concat([before, Buffer.from(other).subarray(at)]),
      () => Buffer.concat([before, Buffer.alloc(after.length)]),
      () => Buffer.from(text.replace(/\d(?=[^"]*$)/, (digit) => String((Number(digit) + 1) % 10))),
      () => Buffer.from(text.replace(/^.{17}/, "")),
      () => Buffer.from(text.replace(/^\{"sum":"\w+",/, "{")),
    ])()
    .toString("utf8");
}

test.each(Object.entries(READERS))("S143: no changed %s is believed", (_what, { value: record, text, read }) => {
  expect(read(text)).toEqual(record);
  const others = Object.values(READERS).map((reader) => reader.text);
  for (let run = 0; run < RUNS * 20; run++) {
    const seed = SEED * 1_000_003 + run;
    const chance = seeded(seed);
    const changed = mutate(chance, text, chance.pick(others));
    if (changed === text || others.includes(changed)) continue;
    let value: unknown;
    try {
      value = read(changed);
    } catch (error) {
      expect(error, `seed ${seed}`).toBeInstanceOf(ForeignError);
    }
    expect(value, `seed ${seed}: ${changed}`).toBeUndefined();
  }
});

test("S143: depth, length and numbers beyond all bounds are not believed either", () => {
  const deep = `{"kind":${"[".repeat(200_000)}${"]".repeat(200_000)}}`;
  const texts = [
    deep,
    "9".repeat(1_000_000),
    `"${"x".repeat(1_000_000)}"`,
    withChecksum({ deep: JSON.parse("[]") as object }),
  ];
  for (const fence of [-1, 0.5, 2 ** 53, 1e300])
    texts.push(withChecksum({ ...forced, fence }), writeEntry({ ...epoch, base: fence }));
  for (const stride of [0, 65, 2 ** 40]) texts.push(writeEntry({ ...epoch, stride }));
  for (const id of ["", "..", "a/b", "x".repeat(65), "\0"])
    texts.push(writeEntry({ ...facts, id }), writeEntry({ ...epoch, id }));
  for (const text of texts) {
    for (const { read } of Object.values(READERS)) {
      let value: unknown;
      try {
        value = read(text);
      } catch (error) {
        expect(error).toBeInstanceOf(ForeignError);
      }
      expect(value, text.slice(0, 200)).toBeUndefined();
    }
  }
  const chance = seeded(SEED);
  for (let run = 0; run < RUNS * 20; run++) {
    const name = Array.from({ length: 12 }, () => chance.pick("_~%aZ09.-/\\".split(""))).join("");
    const read = fromDirectory(name);
    if (read !== undefined) expect(name).toMatch(/^_[-_a-z0-9%]*$/);
  }
});

/** Every file below a directory, the same for the same seed as far as names that are made by chance allow. */
function filesIn(dir: string): string[] {
  return readdirSync(dir, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => path !== join(dir, "holdfast"))
    .toSorted();
}

/** Replaces a file, or changes its text. */
function spoil(chance: SeededChance, path: string): string {
  const text = readFileSync(path, "utf8");
  const put: Record<string, () => void> = {
    changed: () => writeFileSync(path, mutate(chance, text, writeEntry(facts))),
    "cut short": () => truncateSync(path, Math.floor(chance.between(0, lstatSync(path).size))),
    emptied: () => truncateSync(path),
    huge: () => truncateSync(path, 2 ** 40),
    "a directory": () => mkdirSync(path),
    "a pipe": () => execFileSync("mkfifo", [path]),
    "a link": () => symlinkSync(chance.pick(["/nowhere", "/dev/zero", path, "/etc"]), path),
    "another file": () => writeFileSync(path, chance.pick([text, "", "hello", writeEntry(facts)])),
  };
  const what = chance.pick(Object.keys(put));
  if (["a directory", "a pipe", "a link", "another file"].includes(what)) rmSync(path);
  put[what]!();
  return what;
}

test(
  "S143: a damaged file never leads to a second holder, harms no other lock, and ends in an answer or our error",
  { timeout: 180_000 },
  async () => {
    for (let run = 0; run < RUNS / 2; run++) {
      const seed = SEED * 1_000_003 + run;
      const chance = seeded(seed);
      const scratch = new Scratch();
      const [a, b, c] = [
        scratch.open({ hints: "poll" }),
        scratch.open({ hints: "poll" }),
        scratch.open({ hints: "poll" }),
      ];
      const mode = chance.pick([{}, { mode: "shared" }, { limit: 2 }, { minHoldMs: 1 }] as const);
      const [held, waiting, rival, healthy] = [
        claim(mode),
        claim(),
        claim({ queues: false }),
        claim({ name: "healthy" }),
      ];
      await granted(a, held);
      await granted(a, claim({ name: "broken" }));
      const { fence } = (await a.query("broken")).held[0]!;
      await b.forceRelease("broken", fence, "ops", "stuck");
      a.alsoAlive(process.pid);
      if (!("limit" in mode)) await b.attempt(waiting);
      await granted(b, healthy);
      const files = filesIn(scratch.dir).map((path) => ({ path, ino: lstatSync(path).ino }));
      const spared = new Set(files.filter(({ path }) => path.includes("/_healthy/")).map(({ ino }) => ino));
      const { path } = chance.pick(files.filter(({ ino }) => !spared.has(ino)));
      const what = `seed ${seed}: ${path.slice(scratch.dir.length)} is ${spoil(chance, path)}`;

      const ask = async <T>(call: () => Promise<T>): Promise<T | undefined> => {
        try {
          return await call();
        } catch (error) {
          expect(error, what).toBeInstanceOf(LockBackendError);
          return undefined;
        }
      };
      const taken = await ask(() => c.attempt("limit" in mode ? { ...rival, limit: 2 } : rival));
      const beside = "limit" in mode ? 2 : 1;
      const renewal = (await a.renew([held]))[0]!;
      if (taken?.granted === true && beside === 1) expect(renewal.held, what).not.toBe(true);
      await ask(() => b.attempt(waiting));
      expect(
        (await c.query("")).held.map(({ name }) => name),
        what,
      ).toContain("healthy");
      await c.clean();
      expect(await b.renew([healthy]), what).toMatchObject([{ held: true }]);
      expect(await c.attempt(claim({ name: "healthy", queues: false })), what).toMatchObject({ granted: false });
      await ask(() => a.release(held));
      expect(await b.release(healthy), what).toBe("held");
      await granted(c, claim({ name: "healthy" }));
      await Promise.all([a, b, c].map((backend) => ask(() => backend.close())));
      await scratch.end().catch(() => {});
      rmSync(join(scratch.dir, ".."), { recursive: true, force: true });
    }
  },
);

test("S143: a lease whose lease file was replaced by another is not believed to be renewed", async () => {
  const scratch = new Scratch();
  for (const renewed of [true, false]) {
    const [backend, held] = [scratch.open(), claim({ renewed, name: `lock ${renewed}` })];
    await granted(backend, held);
    for (const name of readdirSync(join(scratch.dir, "o"))) {
      const text = readFileSync(join(scratch.dir, "o", name));
      rmSync(join(scratch.dir, "o", name));
      writeFileSync(join(scratch.dir, "o", name), text);
    }
    expect(await backend.renew([held])).toMatchObject([{ held: false }]);
  }
  await scratch.end();
});

test("S143: whatever comes over a socket, wake-ups go on, and nothing is kept", async () => {
  const scratch = new Scratch();
  const [a, b] = [scratch.open(), scratch.open()];
  const [held, waiting] = [claim(), claim()];
  await granted(a, held);
  await b.attempt(waiting);
  const chance = seeded(SEED);
  for (let run = 0; run < RUNS; run++) {
    for (const name of readdirSync(join(scratch.dir, "s"))) {
      const socket = connect({ path: join(scratch.dir, "s", name) });
      const noise = Buffer.from(Array.from({ length: 2000 }, () => Math.floor(chance.between(0, 256))));
      socket.on("error", () => {});
      socket.resume();
      socket.write(
        chance.pick([noise, "look ", "look ../../etc\n", `look ${"x".repeat(64)}\n`.repeat(500), "\n".repeat(9999)]),
      );
      if (chance.happens(0.3)) socket.write("y".repeat(100_000));
      socket.end();
      await new Promise((resolve) => socket.once("close", resolve));
    }
  }
  const watching = b.watch(waiting, new AbortController().signal);
  await a.release(held);
  expect(await watching).toMatchObject({ granted: true });
  await scratch.end();
});
