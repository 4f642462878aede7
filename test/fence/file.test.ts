import "../fixed-seed.ts";
import { execFileSync, fork } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";

import { fileMarks, readFileFenced, writeFileFenced } from "../../src/fence/file/index.ts";
import { FenceRejectedError, memoryMarks } from "../../src/fence/index.ts";
import { rejectionsOf } from "./rejections.ts";
import { greatest, race, writers } from "./writers.ts";

const BEYOND_DOUBLES = 2n ** 53n + 1n;
const MARK_PROCESS = join(import.meta.dirname, "mark-process.mjs");

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "holdfast-fence-"));
});

afterEach(async () => {
  await rm(folder, { recursive: true });
});

const at = (fence: bigint): { name: string; fence: bigint } => ({ name: "report", fence });

describe.each([
  ["memoryMarks", () => memoryMarks()],
  ["fileMarks", () => fileMarks(join(folder, "deep", "marks"))],
])("%s", (_name, open) => {
  test("raises the mark, repeats it, and answers with the higher one", async () => {
    const marks = open();
    expect(await marks.advance("a", BEYOND_DOUBLES)).toBe(BEYOND_DOUBLES);
    expect(await marks.advance("a", BEYOND_DOUBLES)).toBe(BEYOND_DOUBLES);
    expect(await marks.advance("a", BEYOND_DOUBLES - 1n)).toBe(BEYOND_DOUBLES);
    expect(await marks.advance("a", 0n)).toBe(BEYOND_DOUBLES);
    expect(await marks.advance("b", 1n)).toBe(1n);
    expect(await marks.advance("../../b", 0n)).toBe(0n);
    expect(await marks.advance("", 7n)).toBe(7n);
  });
});

describe("fileMarks", () => {
  test("keeps the mark when the process restarts", async () => {
    await fileMarks(folder).advance("a", 34n);
    expect(await fileMarks(folder).advance("a", 33n)).toBe(34n);
    expect(await fileMarks(folder).advance("a", 34n)).toBe(34n);
  });

  test("sees what another process has written, though it remembers its own mark", async () => {
    const [mine, theirs] = [fileMarks(folder), fileMarks(folder)];
    await mine.advance("a", 34n);
    await theirs.advance("a", 35n);
    expect(await mine.advance("a", 34n)).toBe(35n);
  });

  test("leaves one file per mark, and does not touch other files", async () => {
    const marks = fileMarks(folder);
    await marks.advance("a", 1n);
    const [place = ""] = await readdir(folder);
    await writeFile(join(folder, place, "notes.txt"), "mine");
    await writeFile(join(folder, place, "9".repeat(25)), "not a mark");
    for (let fence = 2n; fence < 9n; fence++) await marks.advance("a", fence);
    await marks.advance("a", 3n);
    expect(await readdir(join(folder, place))).toEqual(["0000000000000000008", "9".repeat(25), "lock", "notes.txt"]);
    expect(await readFile(join(folder, place, "lock"), "utf8")).toBe("a");
  });

  test("starts again when an operator removed its folder", async () => {
    const marks = fileMarks(join(folder, "marks"));
    await marks.advance("a", 34n);
    await rm(join(folder, "marks"), { recursive: true });
    expect(await marks.advance("a", 34n)).toBe(34n);
    expect(await fileMarks(join(folder, "marks")).advance("a", 33n)).toBe(34n);
  });

  test("rejects when it cannot write: neither admitted nor refused", async () => {
    await writeFile(join(folder, "file"), "");
    await expect(fileMarks(join(folder, "file")).advance("a", 1n)).rejects.toThrow(/ENOTDIR|EEXIST/);
  });

  test("between processes, a fence is never admitted once a greater one has been", async () => {
    const admissions = (await Promise.all([1, 2, 3].map((seed) => admitInProcess(seed)))).flat();
    expect(admissions.length).toBeGreaterThan(300);
    const accepted = admissions.filter(({ mark, fence }) => mark === fence);
    expect(accepted.length).toBeGreaterThan(3);
    for (const one of accepted) {
      // Both instants are of the machine's one monotonic clock.
      const wrong = accepted.find((other) => other.fence > one.fence && other.endedAt < one.startedAt);
      expect(wrong, `fence ${one.fence} was admitted after`).toBeUndefined();
    }
    expect(await fileMarks(folder).advance("a", 0n)).toBe(greatest(admissions.map(({ fence }) => fence)));
  });

  test("a process killed in the middle of its work leaves the mark at, or above, what it was answered", async () => {
    const child = fork(MARK_PROCESS, [folder, "7", "report-each"], {
      serialization: "advanced",
      execArgv: [],
    });
    const admitted: bigint[] = [];
    await new Promise<void>((resolve) => {
      child.on("message", (message) => {
        admitted.push((message as { mark: bigint }).mark);
        if (admitted.length === 40) child.kill("SIGKILL");
      });
      child.once("exit", () => resolve());
    });
    expect(admitted.length).toBeGreaterThanOrEqual(40);
    expect(admitted.length).toBeLessThan(150);
    const mark = await fileMarks(folder).advance("a", 0n);
    expect(mark >= greatest(admitted)).toBe(true);
  });

  interface Admission {
    readonly fence: bigint;
    readonly mark: bigint;
    readonly startedAt: bigint;
    readonly endedAt: bigint;
  }

  async function admitInProcess(seed: number): Promise<Admission[]> {
    const child = fork(MARK_PROCESS, [folder, String(seed)], {
      serialization: "advanced",
      execArgv: [],
    });
    const message = await new Promise<Admission[]>((resolve, reject) => {
      child.once("message", (message) => resolve(message as Admission[]));
      child.once("exit", (code) => reject(new Error(`the process ended with ${code} without an answer`)));
    });
    return message;
  }
});

describe("a fenced file", () => {
  test("is replaced under a rising fence and an equal one; a lower one changes nothing", async () => {
    const file = join(folder, "report");
    expect(await readFileFenced(file)).toBeUndefined();
    await writeFileFenced(file, at(34n), "a");
    await writeFileFenced(file, at(34n), "b");
    const stale = writeFileFenced(file, at(33n), "stale");
    await expect(stale).rejects.toMatchObject({ code: "ERR_FENCE_REJECTED", current: 34n, offered: 33n });
    expect(await readFileFenced(file)).toEqual({ data: Buffer.from("b"), fence: 34n });
    await writeFileFenced(file, at(BEYOND_DOUBLES), Buffer.from([0, 255]));
    await expect(writeFileFenced(file, at(BEYOND_DOUBLES - 1n), "x")).rejects.toBeInstanceOf(FenceRejectedError);
    expect(await readFileFenced(file)).toEqual({ data: Buffer.from([0, 255]), fence: BEYOND_DOUBLES });
    expect(await readdir(file)).toHaveLength(1);
  });

  test("never goes back to an older fence, whatever the pauses, and is always read whole", async () => {
    let run = 0;
    await fc.assert(
      fc.asyncProperty(writers, async (all) => {
        const file = join(folder, `report-${run++}`);
        const seen: bigint[] = [];
        let writing = true;
        const reading = (async () => {
          while (writing) {
            const found = await readFileFenced(file);
            if (found === undefined) continue;
            expect(found.data.toString()).toBe(String(found.fence).repeat(1000));
            expect(found.fence >= (seen.at(-1) ?? 0n)).toBe(true);
            seen.push(found.fence);
          }
        })();
        await race(all, ({ fence }) => writeFileFenced(file, at(fence), String(fence).repeat(1000)));
        writing = false;
        await reading;
        expect((await readFileFenced(file))?.fence).toBe(greatest(all.map(({ fence }) => fence)));
      }),
      { numRuns: 25 },
    );
  });

  test("S143: the draft of a killed writer goes with the next greater fence; a living writer's stays, or it is refused", async () => {
    const draft = (fence: number, at: number): string =>
      `draft-${String(fence).padStart(19, "0")}-00000000-0000-0000-0000-${String(at).padStart(12, "0")}`;
    await writeFileFenced(folder, at(34n), "a");
    for (const fence of [33, 34, 35, 36]) await writeFile(join(folder, draft(fence, fence)), "half");
    await writeFile(join(folder, "draft-notes"), "mine");
    await writeFileFenced(folder, at(34n), "b");
    // Others of the same lease may be writing, and so may a later one.
    expect(await readdir(folder)).toEqual(
      ["0000000000000000034", ...[34, 35, 36].map((fence) => draft(fence, fence)), "draft-notes"].toSorted(),
    );
    await writeFileFenced(folder, at(37n), "c");
    expect(await readdir(folder)).toEqual(["0000000000000000037", "draft-notes"]);
  });

  test("S143: a writer whose draft was removed because a greater fence came is refused, not failed", async () => {
    const big = Buffer.alloc(8_000_000);
    await writeFileFenced(folder, at(1n), "a");
    for (let fence = 2n; fence < 30n; fence += 2n) {
      const slow = writeFileFenced(folder, at(fence), big);
      let over = false;
      const outcome = slow.catch((error: unknown) => error).finally(() => (over = true));
      // On a busy machine it may have come and gone between two looks.
      const isUnderWay = async (): Promise<boolean> =>
        over || (await readdir(folder)).some((name) => name.startsWith("draft-"));
      await vi.waitUntil(isUnderWay, { interval: 0, timeout: 120_000 });
      await writeFileFenced(folder, at(fence + 1n), "later");
      const seen = await outcome;
      if (seen !== undefined) expect(seen).toBeInstanceOf(FenceRejectedError);
      expect((await readFileFenced(folder))?.data.toString()).toBe("later");
    }
    expect(await readdir(folder)).toHaveLength(1);
  });

  test.each(["a directory", "a pipe", "a link", "a number that is no fence"])(
    "S143: %s with the name of a version is not a version, and does not block writers",
    async (what) => {
      const name = what === "a number that is no fence" ? "9".repeat(19) : "0000000000000000099";
      const put: Record<string, () => unknown> = {
        "a directory": () => mkdir(join(folder, name)),
        "a pipe": () => execFileSync("mkfifo", [join(folder, name)]),
        "a link": () => symlink("/etc/hostname", join(folder, name)),
      };
      await (put[what] ?? (() => writeFile(join(folder, name), "")))();
      expect(await readFileFenced(folder)).toBeUndefined();
      await writeFileFenced(folder, at(34n), "a");
      expect(await readFileFenced(folder)).toEqual({ data: Buffer.from("a"), fence: 34n });
      expect(await readdir(folder)).toContain(name);
      // With the very fence of that name: an answer, or an error, but never a wait.
      const marks = fileMarks(folder);
      await marks.advance("x", 1n);
      const place = join(
        folder,
        (await readdir(folder)).find((entry) => entry.length === 64)!,
      );
      if (what === "a pipe") {
        execFileSync("mkfifo", [join(place, "0000000000000000099")]);
        await expect(marks.advance("x", 99n)).rejects.toThrow(/ENXIO/);
      }
    },
  );

  test("publishes a refusal", async () => {
    await writeFileFenced(folder, at(34n), "a");
    const events = await rejectionsOf(() => writeFileFenced(folder, at(33n), "b").catch(() => {}));
    expect(events).toEqual([{ guard: "file", name: "report", current: 34n, offered: 33n }]);
  });
});
