/** etcdctl lock and we take turns on one lock: no two are inside together, all are served in order, and fences rise. */
import { execFile, spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { etcd, type EtcdBackend } from "../../../src/backends/etcd/index.ts";
import { type EtcdLab, startEtcd } from "../../../src/lab/servers/etcd.ts";
import { findProgram } from "../../../src/lab/servers/programs.ts";
import { makeScratch, removeScratch } from "../../../src/lab/servers/scratch.ts";
import { DIST } from "../../dist.ts";
import { acquire, claim, eventually, granted, refused } from "./claims.ts";

const run = promisify(execFile);
const TIMEOUT_MS = 120_000;

let lab: EtcdLab;
let backend: EtcdBackend;
let etcdctl: string;
let scratch: string;

beforeAll(async () => {
  lab = await startEtcd();
  backend = etcd({ endpoints: lab.endpoints, names: "paths" });
  etcdctl = await findProgram("etcdctl");
  scratch = makeScratch();
}, TIMEOUT_MS);

afterAll(async () => {
  await backend.close();
  await lab.stop();
  removeScratch(scratch);
});

const env = { ...process.env, ETCDCTL_API: "3" };

/** Runs a command of the shell under `etcdctl lock`, and resolves to what it printed. */
async function underEtcdctl(name: string, command: string): Promise<string> {
  const { stdout } = await run(etcdctl, [`--endpoints=${lab.endpoints}`, "lock", name, "--", "sh", "-c", command], {
    env,
  });
  return stdout;
}

describe("etcdctl lock", () => {
  test("has the keys that we have, and each respects the other's", { timeout: TIMEOUT_MS }, async () => {
    const one = claim("locks/one");
    const { fence } = await granted(backend, one);
    const { kvs } = await backend.client.range({ key: Buffer.from("locks/one/"), end: Buffer.from("locks/one0") });
    expect(kvs.map(({ key }) => key.toString())).toEqual([`locks/one/${kvs[0]?.lease.toString(16)}`]);
    const theirs = underEtcdctl("locks/one", "echo inside $ETCD_LOCK_REV");
    await eventually("it waits", async () =>
      (await backend.query("locks/one")).pending.length === 1 ? true : undefined,
    );
    expect((await backend.query("locks/one")).pending[0]).toMatchObject({ holder: "unknown", position: 1 });
    expect(await backend.release(one)).toBe("held");
    const [, revision = "0"] = /^inside (\d+)/.exec(await theirs) ?? [];
    expect(BigInt(revision), "their number rises over ours").toBeGreaterThan(fence);
    const again = claim("locks/one");
    const next = await acquire(backend, again);
    expect(next.fence, "and ours over theirs").toBeGreaterThan(BigInt(revision));
    await backend.release(again);
  });

  test("that holds is shown, waited for in turn, and ended by force", { timeout: TIMEOUT_MS }, async () => {
    const holder = spawn(etcdctl, [`--endpoints=${lab.endpoints}`, "lock", "locks/two"], { env, stdio: "ignore" });
    const ended = new Promise((resolve) => holder.once("exit", resolve));
    try {
      const [held] = await eventually("it holds", async () => {
        const found = (await backend.query("locks/two")).held;
        return found.length > 0 ? found : undefined;
      });
      expect(held).toMatchObject({ name: "locks/two", mode: "exclusive", limit: 1, holder: "unknown" });
      const [first, second] = [claim("locks/two"), claim("locks/two")];
      const refusal = await refused(backend, first);
      expect(refusal.heldBy).toMatchObject([{ fence: held?.fence }]);
      expect(refusal.heldBy[0]?.remainingMs).toBeGreaterThan(0);
      expect((await refused(backend, second)).position).toBe(2);
      expect(await backend.forceRelease("locks/two", held?.fence ?? 0n, "ops", "stuck")).toBe(true);
      const grant = await acquire(backend, first);
      expect(grant.fence).toBeGreaterThan(held?.fence ?? 0n);
      await backend.release(first);
      await backend.release(second);
    } finally {
      holder.kill("SIGTERM");
      await ended;
    }
  });

  test("waits for readers and for those with a limit", { timeout: TIMEOUT_MS }, async () => {
    for (const change of [{ mode: "shared" }, { limit: 3 }] as const) {
      const one = claim("locks/three", change);
      await granted(backend, one);
      const theirs = underEtcdctl("locks/three", "echo inside");
      await eventually("it waits", async () =>
        (await backend.query("locks/three")).pending.length === 1 ? true : undefined,
      );
      expect(await backend.release(one)).toBe("held");
      expect(await theirs).toContain("inside");
    }
  });

  test(
    "and four processes of ours count to the same number: nothing is lost, and fences rise",
    { timeout: TIMEOUT_MS },
    async () => {
      const [counter, log] = [join(scratch, "counter"), join(scratch, "fences")];
      writeFileSync(counter, "0");
      const rounds = 6;
      const script = `n=$(cat ${counter}); sleep 0.01; echo $((n+1)) > ${counter}`;
      const theirs = async (): Promise<void> => {
        for (let i = 0; i < rounds; i++) await underEtcdctl("locks/four", script);
      };
      const program = `
        import { appendFileSync, readFileSync, writeFileSync } from "node:fs";
        import { connect } from ${JSON.stringify(join(DIST, "index.js"))};
        const locks = await connect("${lab.url}?names=paths", { ttl: "30s" });
        for (let i = 0; i < ${rounds}; i++) {
          await locks.run("locks/four", { wait: "100s" }, async ({ fence }) => {
            appendFileSync(${JSON.stringify(log)}, fence + "\\n");
            const count = Number(readFileSync(${JSON.stringify(counter)}, "utf8"));
            await new Promise((resolve) => setTimeout(resolve, 5));
            writeFileSync(${JSON.stringify(counter)}, String(count + 1));
          });
        }
        await locks.close();`;
      const ours = (): Promise<unknown> => run(process.execPath, ["--input-type=module", "--eval", program]);
      await Promise.all([theirs(), theirs(), ours(), ours(), ours(), ours()]);
      expect(readFileSync(counter, "utf8").trim()).toBe(String(6 * rounds));
      // Written by the process that holds the lock, so in the order of the leases.
      const fences = readFileSync(log, "utf8").trim().split("\n").map(BigInt);
      expect(fences).toHaveLength(4 * rounds);
      for (const [at, fence] of fences.entries()) if (at > 0) expect(fence).toBeGreaterThan(fences[at - 1] as bigint);
    },
  );

  test("on a lock inside of another's name does not disturb escaped names", { timeout: TIMEOUT_MS }, async () => {
    const escaped = etcd({ endpoints: lab.endpoints });
    const [outer, inner] = [claim("a"), claim("a/b")];
    await granted(escaped, inner);
    await granted(escaped, outer);
    expect((await escaped.query("a")).held.map(({ name }) => name).toSorted()).toEqual(["a", "a/b"]);
    expect(await underEtcdctl("/holdfast/b", "echo inside")).toContain("inside");
    const theirs = underEtcdctl("/holdfast/a", "echo inside");
    await eventually("it waits", async () => ((await escaped.query("a")).pending.length === 1 ? true : undefined));
    await escaped.release(outer);
    expect(await theirs).toContain("inside");
    await escaped.release(inner);
    await escaped.close();
  });
});
