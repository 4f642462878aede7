/** Which processes count as dead, and how fast: killed holders, zombies, stopped ones, and those that cannot be seen from here. */
import { execFileSync, type ForkOptions, spawn } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { isRunning, type ProcessIdentity, startOf, thisProcess } from "../../../src/backends/file/process-identity.ts";
import { BUILD } from "../../dist.ts";
import { claim, eventually, granted, grantedAtLast, type Peer, rewrite, Scratch } from "./peers.ts";

let scratch: Scratch;
beforeEach(() => {
  scratch = new Scratch();
});
afterEach(() => scratch.end());

/** Changes who made the only lease file, as if another kind of process had written it. */
function pretend({ dir }: Scratch, change: Partial<ProcessIdentity>): void {
  const [id] = readdirSync(join(dir, "o"));
  // In place, so the entry in the log, which is a link to it, changes too.
  rewrite<{ life: ProcessIdentity }>(join(dir, "o", id!), (facts) => ({
    ...facts,
    life: { ...facts.life, ...change },
  }));
}

describe("a killed holder", () => {
  test("is replaced at once, long before its ttl", async () => {
    const peer = await scratch.peer();
    const before = await granted(peer, claim({ ttlMs: 3_600_000 }));
    const [backend, waiter] = [scratch.open(), claim()];
    expect(await backend.attempt(waiter)).toMatchObject({ granted: false, position: 1 });
    const watching = backend.watch(waiter, new AbortController().signal);
    await peer.kill();
    await watching;
    const after = await grantedAtLast(backend, waiter);
    expect(after.fence).toBeGreaterThan(before.fence + BigInt(before.run) - 1n);
  });

  test("is followed by the waiters in their order, and a killed waiter is skipped", async () => {
    const [holder, dead] = [await scratch.peer(), await scratch.peer()];
    const backend = scratch.open();
    await granted(holder, claim());
    await dead.attempt(claim());
    const [second, third] = [claim(), claim()];
    expect(await backend.attempt(second)).toMatchObject({ position: 2 });
    expect(await backend.attempt(third)).toMatchObject({ position: 3 });
    await Promise.all([holder.kill(), dead.kill()]);
    await grantedAtLast(backend, second);
    expect(await backend.attempt(third)).toMatchObject({ granted: false, position: 1 });
  });

  test("with a lockDelay keeps the others out for that long after its death, and no longer", async () => {
    const peer = await scratch.peer();
    await granted(peer, claim({ ttlMs: 3_600_000, lockDelayMs: 700 }));
    await peer.kill();
    const killedMs = performance.now();
    await grantedAtLast(scratch.open(), claim());
    expect(performance.now() - killedMs).toBeGreaterThanOrEqual(700);
  });

  test("with a minHold keeps the others out until that age", async () => {
    const peer = await scratch.peer();
    const fromMs = performance.now();
    await granted(peer, claim({ ttlMs: 3_600_000, minHoldMs: 1200 }));
    await peer.kill();
    await grantedAtLast(scratch.open(), claim());
    expect(performance.now() - fromMs).toBeGreaterThanOrEqual(1200);
  });

  test("is dead although its parent has not collected it yet: a zombie holds nothing", async () => {
    // The shell becomes `sleep`, which never waits for the child that it inherits.
    const program = `"$0" "$@" & exec sleep 60`;
    const killed = join(import.meta.dirname, "killed-process.mjs");
    const args = ["-c", program, process.execPath, killed, BUILD, scratch.dir, "alone", "100000", "before", "all"];
    const parent = spawn("sh", [...args, "hold"], { stdio: ["ignore", "pipe", "inherit"] });
    try {
      let text = "";
      parent.stdout.on("data", (more: Buffer) => (text += more.toString()));
      const pid = Number(await eventually("the child prints its pid", () => /pid (\d+)\n/.exec(text)?.[1]));
      const backend = scratch.open();
      await eventually("the child holds the lock", async () =>
        (await backend.query("")).held.length === 1 ? true : undefined,
      );
      const start = startOf(pid);
      process.kill(pid, "SIGKILL");
      // Its other threads may still be on their way out.
      await eventually("the child has ended", () => (isRunning(pid, start) ? undefined : true));
      expect(readFileSync(`/proc/${pid}/stat`, "latin1")).toMatch(/\) Z /);
      await grantedAtLast(backend, claim({ name: "doomed" }));
    } finally {
      parent.kill("SIGKILL");
    }
  });
});

describe("liveness", () => {
  test("distinguishes this process from another that had its pid", () => {
    expect(isRunning(process.pid, startOf(process.pid))).toBe(true);
    expect(isRunning(process.pid, "1")).toBe(false);
    expect(isRunning(2 ** 22 + 1, "1")).toBe(false);
  });

  test("a pid that was used again does not keep a dead holder's lock", async () => {
    const peer = await scratch.peer();
    await granted(peer, claim());
    await peer.kill();
    pretend(scratch, { pid: process.pid });
    await granted(scratch.open(), claim());
  });

  test("knows itself by boot, pid, start time and namespaces", () => {
    expect(thisProcess()).toMatchObject({ pid: process.pid, start: expect.stringMatching(/^\d+$/) });
    expect(thisProcess().boot).toMatch(/^[-0-9a-f]{36}$/);
    expect(thisProcess().pidNamespace).toMatch(/^pid:\[\d+\]$/);
  });
});

/** These wait for a lease to end: all at once, each in a directory of its own. */
describe.concurrent("a holder that cannot be seen from here", () => {
  const ttlMs = 1500;

  /** Takes the lock in another process, changes who that seems to have been, kills it, and waits for the lock. */
  async function outlive(fork: ForkOptions, change?: Partial<ProcessIdentity>): Promise<void> {
    const there = new Scratch();
    try {
      const peer = await there.peer({}, fork);
      const fromMs = performance.now();
      await granted(peer, claim({ ttlMs }));
      if (change !== undefined) pretend(there, change);
      await peer.kill();
      await grantedAtLast(there.open(), claim());
      expect(performance.now() - fromMs).toBeGreaterThanOrEqual(ttlMs);
    } finally {
      await there.end();
    }
  }

  test.each([
    ["boot", { boot: "another boot" }],
    ["pid namespace", { pidNamespace: "pid:[1]" }],
    ["time namespace", { timeNamespace: "time:[1]", pidNamespace: "pid:[1]" }],
  ])("because it is of another %s, is never declared dead: its lease ends when its time is over", (_what, change) =>
    outlive({}, change),
  );

  test("because it is in a real pid namespace of its own, keeps its lock until its time is over", () => {
    const flags = process.getuid?.() === 0 ? [] : ["--user", "--map-root-user"];
    const execArgv = [...flags, "--pid", "--fork", "--kill-child", "--mount-proc", process.execPath];
    return outlive({ execPath: "unshare", execArgv });
  });
});

/** One pid namespace, and in it processes that have its own /proc, or that of the namespace around it. */
describe("S126: in a pid namespace that sees another one's /proc", () => {
  const user = process.getuid?.() === 0 ? [] : ["--user", "--map-root-user"];

  /** Starts processes in one new pid namespace; `true`: with a /proc of that namespace. */
  async function inside(...ownProc: readonly boolean[]): Promise<Peer[]> {
    // The shell is the namespace's first process, which has to bury those whose parents died.
    const init = ["sh", "-c", '"$0" "$@"; exit 0', process.execPath];
    const execArgv = [...user, "--pid", "--fork", "--kill-child", ...init];
    const first = await scratch.peer({}, { execPath: "unshare", execArgv });
    const there = `/proc/${first.pid}/ns`;
    const enter = user.length === 0 ? [] : [`--user=${there}/user`, "--preserve-credentials"];
    return Promise.all(
      ownProc.map((own) => {
        const mount = own ? ["unshare", "--mount-proc"] : [];
        const args = [...enter, `--pid=${there}/pid_for_children`, ...mount, process.execPath];
        return scratch.peer({}, { execPath: "nsenter", execArgv: args });
      }),
    );
  }

  test.each([
    ["foreign", "its own", false, true],
    ["its own", "foreign", true, false],
    ["foreign", "foreign", false, false],
  ])("a holder (/proc: %s) is not taken for dead by a rival (/proc: %s) while it lives", async (_a, _b, one, two) => {
    const [holder, rival] = await inside(one, two);
    const [held, wish] = [claim(), claim()];
    await granted(holder!, held);
    expect(await rival!.attempt({ ...wish, queues: false })).toMatchObject({ granted: false });
    expect(await holder!.call("renew", [held])).toMatchObject([{ held: true }]);
    await holder!.call("release", held);
    await granted(rival!, wish);
  });

  test("a child that works under the lock keeps it, and its end is seen: that there is no such process is certain", async () => {
    const [holder, rival] = await inside(false, false);
    const child = await holder!.call<number>("startChild");
    await holder!.call("alsoAlive", child);
    await granted(holder!, claim());
    await holder!.die();
    expect(await rival!.attempt(claim({ queues: false }))).toMatchObject({ granted: false });
    await rival!.call("kill", child);
    await grantedAtLast(rival!, claim());
  });

  test("nothing but its own start time is believed from such a /proc", async () => {
    const program = `
      const { thisProcess, seesProcesses, startOf } = await import("${BUILD}/backends/file/process-identity.js");
      console.log(JSON.stringify({ sees: seesProcesses(), own: thisProcess().start, other: startOf(process.pid) }));`;
    const text = execFileSync(
      "unshare",
      [...user, "--pid", "--fork", process.execPath, "--input-type=module", "-e", program],
      { encoding: "utf8" },
    );
    const { sees, own, other } = JSON.parse(text) as { sees: boolean; own: string; other: string };
    expect({ sees, other }).toEqual({ sees: false, other: "" });
    // The start of the oldest process here is that of the namespace around it.
    expect(Number(own)).toBeGreaterThan(Number(startOf(process.pid)));
  });
});

test("S126: a holder whose time namespace shifts its start time is not taken for dead while it runs", async () => {
  const user = process.getuid?.() === 0 ? [] : ["--user", "--map-root-user"];
  const execArgv = [...user, "--time", "--boottime", "100000", "--fork", "--kill-child", process.execPath];
  const shifted = await scratch.peer({}, { execPath: "unshare", execArgv });
  const [backend, held] = [scratch.open(), claim()];
  await granted(shifted, held);
  expect(await backend.attempt(claim({ queues: false }))).toMatchObject({ granted: false });
  await shifted.call("release", held);
  await granted(backend, held);
  expect(await shifted.attempt(claim({ queues: false }))).toMatchObject({ granted: false });
});

describe("a stopped holder", () => {
  test("loses the lock when its ttl is over, and learns it when it continues", async () => {
    const peer = await scratch.peer();
    const [stopped, waiter] = [claim({ ttlMs: 400 }), claim()];
    const fromMs = performance.now();
    const before = await granted(peer, stopped);
    peer.process.kill("SIGSTOP");
    const backend = scratch.open();
    const after = await grantedAtLast(backend, waiter);
    expect(performance.now() - fromMs).toBeGreaterThanOrEqual(400);
    expect(after.fence).toBeGreaterThan(before.fence);
    peer.process.kill("SIGCONT");
    expect(await peer.call("renew", [stopped])).toMatchObject([{ held: false }]);
    expect(await peer.call("release", stopped)).toBe("absent");
    expect(await backend.renew([waiter])).toMatchObject([{ held: true }]);
  });

  test("that waited is skipped when its ticket expires, and can queue again", async () => {
    const peer = await scratch.peer();
    const backend = scratch.open();
    const [holder, stopped, next] = [claim(), claim({ ttlMs: 400 }), claim()];
    await granted(backend, holder);
    expect(await peer.attempt(stopped)).toMatchObject({ position: 1 });
    peer.process.kill("SIGSTOP");
    expect(await backend.attempt(next)).toMatchObject({ granted: false });
    await eventually("the stopped waiter is passed over", async () => {
      const answer = await backend.attempt(next);
      return !answer.granted && answer.position === 1 ? true : undefined;
    });
    await backend.release(holder);
    await grantedAtLast(backend, next);
    peer.process.kill("SIGCONT");
    expect(await peer.attempt(stopped)).toMatchObject({ granted: false, position: 1 });
    await backend.release(next);
    await grantedAtLast(peer, stopped);
  });
});

test("a process whose event loop is blocked does not delay the locks of others", async () => {
  const [blocked, other] = [await scratch.peer(), await scratch.peer()];
  const backend = scratch.open();
  await granted(blocked, claim({ name: "its own" }));
  const enough = join(scratch.dir, "../enough");
  const blocking = blocked.call("blockUntil", enough);
  const [first, second] = [claim(), claim()];
  await granted(backend, first);
  await other.attempt(second);
  const watching = other.call("watch", second);
  await backend.release(first);
  await watching;
  await grantedAtLast(other, second);
  writeFileSync(enough, "");
  await blocking;
});
