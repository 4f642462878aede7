/** In a real pseudo-terminal: the progress line, Ctrl-C, and `top`. */
import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";

import { Bench, isRunning, type Started, until } from "./harness.ts";
import { Terminal } from "./terminal.ts";

const bench = new Bench();
let terminal: Terminal;
let count = 0;
beforeEach(() => {
  terminal = new Terminal(bench, String(count++));
});
afterEach(() => terminal.close());
afterAll(() => bench.close());

async function holds(name: string, ...flags: readonly string[]): Promise<Started> {
  const started = bench.start(["run", name, ...flags, "--", "sh", "-c", "echo in; read x"]);
  await until(() => started.stdout() === "in\n", `${name} is held`);
  return started;
}

async function release(...started: readonly Started[]): Promise<void> {
  for (const one of started) one.process.stdin?.end("\n");
  await Promise.all(started.map((one) => one.done));
}

describe("the progress line", () => {
  test("says who holds the lock, since when, our place in line and the time left; then it is gone", async () => {
    const holder = await holds("slow");
    terminal.type("holdfast run slow --wait 5m -- echo got-it");
    const line = new RegExp(
      `waiting for slow · held by \\S+:${holder.pid} \\(sh\\) for \\d+ s · 1st in line · 4 m \\d+ s left to wait`,
    );
    await terminal.shows(line);
    await release(holder);
    await terminal.shows(/^got-it$/m);
    expect(terminal.screen()).not.toContain("waiting for slow");
  });

  test("counts on, and says how long it has waited where there is no end", async () => {
    const holder = await holds("endless");
    const other = bench.start(["run", "endless", "--", "true"], { input: "" });
    await until(() => other.stderr() !== "x", "started");
    for (let queued = false; !queued;) {
      queued =
        (JSON.parse((await bench.run(["show", "endless", "--json"])).stdout) as { pending: unknown[] }).pending
          .length === 1;
    }
    terminal.type("holdfast run endless -- echo got-it");
    await terminal.shows(/2nd in line · waited 1 s/);
    await terminal.shows(/2nd in line · waited 2 s/);
    await release(holder);
    await terminal.shows(/^got-it$/m);
    expect((await other.done).stderr).toBe("");
  });

  test("never wraps: it is cut to the width of the terminal", async () => {
    terminal.resize(40, 10);
    const holder = await holds("a-rather-long-name-for-a-lock");
    terminal.type("clear; holdfast run a-rather-long-name-for-a-lock -w 5m -- true");
    await terminal.shows(/…$/m);
    await new Promise((resolve) => setTimeout(resolve, 600));
    expect(terminal.screen().match(/waiting for/g)).toHaveLength(1);
    terminal.keys("C-c");
    await release(holder);
  });

  test("Ctrl-C while waiting leaves the queue and a clean line; the code is 130", async () => {
    const holder = await holds("stop");
    terminal.type("holdfast run stop -- true; echo code=$?");
    await terminal.shows(/1st in line/);
    terminal.keys("C-c");
    await terminal.shows(/^code=130$/m);
    expect(JSON.parse((await bench.run(["show", "stop", "--json"])).stdout)).toMatchObject({ pending: [] });
    await release(holder);
  });
});

describe("a command at a terminal", () => {
  test("reads what is typed", async () => {
    terminal.type("holdfast run tty -- sh -c 'echo ready; read x; echo heard=$x'");
    await terminal.shows(/^ready$/m);
    terminal.type("hello");
    await terminal.shows(/^heard=hello$/m);
  });

  test("gets Ctrl-C once, from the terminal itself, and its code is passed on", async () => {
    terminal.type(
      `holdfast run int -- sh -c 'trap "echo once >> caught" INT; echo ready; sleep 60; echo slept; exit 5'; echo code=$?`,
    );
    await terminal.shows(/^ready$/m);
    terminal.keys("C-c");
    await terminal.shows(/^code=5$/m);
    // Counted in a file: a screen also shows what was typed, and twice where the shell was not reading yet.
    expect(bench.lines("caught")).toEqual(["once"]);
  });

  test("S103: dies with a killed holdfast here too, with all it started", async () => {
    terminal.type(
      `holdfast run ttykill --ttl 1h -- sh -c 'sleep 600 & echo $! > kin; echo $$ >> kin; echo $PPID >> kin; wait'`,
    );
    await until(() => bench.lines("kin").length === 3, "it runs");
    const [, , holdfast] = bench.lines("kin");
    process.kill(Number(holdfast), "SIGKILL");
    await until(() => !bench.lines("kin").some((pid) => isRunning(Number(pid))), "all are ended");
    expect((await bench.run(["run", "ttykill", "-w", "10s", "--", "true"])).code).toBe(0);
  });

  test("S102: is ended at the deadline with all it started, though they ignore SIGTERM and share our group", async () => {
    terminal.type(
      `holdfast run ttylost --ttl 1s --max-hold 1s -- sh -c 'trap "" TERM; sleep 600 & echo $! > lost; sleep 600'; echo code=$?`,
    );
    await terminal.shows(/^code=76$/m);
    expect(isRunning(Number(bench.lines("lost")[0]))).toBe(false);
  });
});

describe("top", () => {
  test("shows holders, time left as a bar, fences and waiters; filters, sorts, and goes on by itself", async () => {
    const alpha = await holds("alpha", "--meta", "version=1.4");
    const beta = await holds("beta", "--ttl", "1h");
    const waiter = bench.start(["run", "beta", "--", "true"], { input: "" });
    terminal.type("holdfast top --every 100ms");
    const { fence } = await heldNow("alpha");
    await terminal.shows(
      new RegExp(`^alpha +exclusive +\\S+:${alpha.pid} \\(sh 1\\.4\\) +\\S+ m?s +\\S+ s +█+\\S* +${fence}`, "m"),
    );
    await terminal.shows(/^beta .* 1 *$/m);
    await terminal.shows(/2 held, 1 waiting/);
    expect(terminal.state("alternate_on")).toBe("1");

    terminal.keys("/");
    terminal.keys("a", "l", "p");
    await terminal.lacks(/^beta/m);
    await terminal.shows(/filter: alp/);
    terminal.keys("Escape");
    await terminal.shows(/^beta/m);

    terminal.keys("s", "s", "r");
    await terminal.shows(/LEFT▾/);
    expect(terminal.screen()).toMatch(/^beta[\s\S]*^alpha/m);
    terminal.keys("r");
    await terminal.shows(/^alpha[\s\S]*^beta/m);

    const gamma = await holds("gamma");
    await terminal.shows(/^gamma/m);
    terminal.keys("q");
    await restored();
    await release(alpha, beta, gamma);
    await waiter.done;
  });

  test("--by wait shows for whom it was waited, also when that is over; --json is for scripts", async () => {
    const alpha = await holds("alpha", "--reason", "import");
    const waiter = bench.start(["run", "alpha", "--", "true"], { input: "" });
    const asked = ["top", "--by", "wait", "--json", "--every", "50ms", "--for", "300ms"];
    interface Waits {
      readonly looks: number;
      readonly locks: readonly { readonly waitMs: number; readonly holders: readonly Record<string, unknown>[] }[];
    }
    const sampled = await until(async () => {
      const waits = JSON.parse((await bench.run(asked)).stdout) as Waits;
      return waits.locks.length > 0 ? waits : undefined;
    }, "the waiter is seen");
    expect(sampled.looks).toBeGreaterThan(1);
    expect(sampled.locks).toMatchObject([
      { name: "alpha", waiting: 1, holders: [{ reason: "import", pid: alpha.pid }] },
    ]);
    expect(sampled.locks[0]?.holders[0]?.["waitMs"]).toBe(sampled.locks[0]?.waitMs);

    terminal.type("holdfast top --by wait --every 100ms");
    await terminal.shows(/^NAME +WAITERS +WAITED▾ +FOR/m);
    await terminal.shows(new RegExp(`^alpha +1 +\\S+ m?s +100 % \\S+:${alpha.pid} import`, "m"));
    await release(alpha);
    await waiter.done;
    await terminal.shows(new RegExp(`^alpha +\\S+ m?s +100 % \\S+:${alpha.pid} import`, "m"));
    terminal.keys("s");
    await terminal.shows(/NAME▴ +MODE/);
    await terminal.lacks(/^alpha/m);
    terminal.keys("q");
    await restored();
  });

  test.each([
    ["q", (): void => terminal.keys("q"), 0],
    ["Ctrl-C", (): void => terminal.keys("C-c"), 130],
    ["SIGTERM", (): boolean => process.kill(topPid(), "SIGTERM"), 143],
    ["SIGHUP", (): boolean => process.kill(topPid(), "SIGHUP"), 129],
  ] as const)("gives the terminal back after %s", async (_, end, code) => {
    terminal.type("holdfast top; echo code=$?");
    await terminal.shows(/q quit/);
    end();
    await terminal.shows(new RegExp(`^code=${code}$`, "m"));
    await restored();
  });

  test("gives the terminal back after an uncaught error", async () => {
    bench.write("boom.mjs", "setTimeout(() => { throw new Error('boom'); }, 1500);");
    terminal.type("NODE_OPTIONS='--import ./boom.mjs' holdfast top; echo code=$?");
    await terminal.shows(/q quit/);
    await terminal.shows(/^code=[1-9]\d*$/m);
    await restored();
  });

  test("follows the size of the terminal, and scrolls what does not fit", async () => {
    const held = await Promise.all(Array.from({ length: 5 }, (_, i) => holds(`row-${i}`)));
    terminal.resize(90, 7);
    terminal.type("holdfast top row- --every 100ms");
    await terminal.shows(/^row-2/m);
    expect(terminal.screen()).not.toContain("row-4");
    terminal.keys("End");
    await terminal.shows(/^row-4/m);
    terminal.resize(120, 20);
    terminal.keys("Home");
    await terminal.shows(/^row-0[\s\S]*^row-4/m);
    terminal.keys("q");
    await release(...held);
  });

  test("colours only where they are wanted", async () => {
    terminal.type("holdfast top");
    await terminal.shows(/q quit/);
    expect(terminal.screen({ colours: true })).toContain("\u001b[7m");
    terminal.keys("q");
    await restored();
    terminal.type("NO_COLOR=1 holdfast top");
    await terminal.shows(/q quit/);
    // oxlint-disable-next-line no-control-regex
    expect(terminal.screen({ colours: true })).not.toMatch(/\u001b\[\d+m/);
    terminal.keys("q");
  });
});

/** The main screen, a visible cursor, wrapping lines, echo and line editing: as it was. */
async function restored(): Promise<void> {
  await until(() => terminal.state("alternate_on") === "0", "the main screen is back");
  expect(terminal.state("cursor_flag")).toBe("1");
  expect(terminal.state("wrap_flag")).toBe("1");
  terminal.type("clear; stty -a | tr ';' '\\n' | grep -c -e '-icanon' -e '-echo '; echo checked");
  await terminal.shows(/^checked$/m);
  expect(terminal.screen()).toMatch(/^0$/m);
}

function topPid(): number {
  const shell = Number(terminal.state("pane_pid"));
  const [pid] = bench.childrenOf(shell);
  return pid ?? 0;
}

async function heldNow(name: string): Promise<{ fence: string }> {
  const { held } = JSON.parse((await bench.run(["show", name, "--json"])).stdout) as { held: { fence: string }[] };
  return held[0] ?? { fence: "none" };
}
