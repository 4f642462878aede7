/** S148: a store that takes connections and never answers. A command that asks it ends in bounded time, with 69 and a clear message. */
import { createServer, type Server, type Socket } from "node:net";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";

import { ANSWER_MS, ask, RIDE_OUT_MS, Silence } from "../../src/cli/ask-store.ts";
import { LockBackendError } from "../../src/contract/errors.ts";
import { createLocks } from "../../src/core/locks.ts";
import { memory } from "../../src/backends/memory/index.ts";
import { Bench } from "./harness.ts";
import { Terminal } from "./terminal.ts";

const bench = new Bench();
const sockets = new Set<Socket>();
let server: Server;
beforeAll(async () => {
  server = createServer((socket) => sockets.add(socket));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
});
afterAll(() => {
  bench.close();
  for (const socket of sockets) socket.destroy();
  server.close();
});
const port = (): number => (server.address() as AddressInfo).port;

describe.concurrent("S148: exit 69", () => {
  const stores = [
    // Opening it is what fails.
    ["redis", () => `redis://127.0.0.1:${port()}`, /nothing usable answers/],
    // On a busy machine its client's own limit, half a second later, may be noticed first.
    [
      "zk",
      () => `zk://127.0.0.1:${port()}`,
      /store has not answered for 5 seconds.*holdfast doctor|unknown whether.*no answer within/,
    ],
    ["redlock", () => `redlock://127.0.0.1:${port()},localhost:${port()},[::ffff:127.0.0.1]:${port()}`, /answer|reach/],
  ] as const;
  const commands = [["ls"], ["show", "x"], ["wait", "x"], ["wait", "x", "-n"], ["top", "--json"]] as const;
  test.each(
    stores.flatMap(([name, url, said]) => commands.map((args) => [name, args.join(" "), url, args, said] as const)),
  )("%s: %s", async (_, __, url, args, said) => {
    const { code, stderr } = await bench.run(args, { env: { HOLDFAST_URL: url() } });
    expect({ code, stderr }).toMatchObject({ code: 69, stderr: expect.stringMatching(said) });
    expect(stderr).not.toMatch(/^ +at /m);
  });
});

test("S148: top, on a terminal that it gives back", async () => {
  const terminal = new Terminal(bench, "top");
  try {
    terminal.type(`holdfast top --url zk://127.0.0.1:${port()}; echo "exit $?"`);
    await terminal.shows(/The zookeeper store has not answered for 5 seconds[\s\S]*exit 69/);
    expect(terminal.state("alternate_on")).toBe("0");
  } finally {
    terminal.close();
  }
});

describe("how long", () => {
  const hung = {
    locks: createLocks(Object.assign(memory(), { query: () => new Promise<never>(() => {}) })),
    backend: { name: "redis" },
  };

  test("an answer that does not come is given up", async () => {
    vi.useFakeTimers();
    try {
      const seen = expect(ask(hung, "")).rejects.toThrow("The redis store has not answered for 5 seconds");
      await vi.advanceTimersByTimeAsync(ANSWER_MS);
      await seen;
    } finally {
      vi.useRealTimers();
    }
  });

  test("an abort is not waited out", async () => {
    const stop = new AbortController();
    const asked = ask(hung, "", stop.signal);
    stop.abort(new Error("enough"));
    await expect(asked).rejects.toThrow("enough");
    await expect(ask(hung, "", stop.signal)).rejects.toThrow("enough");
  });

  test("a store that has answered before may be away for longer, one that is wrong not at all", () => {
    vi.useFakeTimers({ toFake: ["performance"] });
    try {
      const passing = new LockBackendError("redis", "", "away");
      const silence = new Silence();
      vi.advanceTimersByTime(ANSWER_MS - 1);
      expect(silence.isOver(passing)).toBe(false);
      vi.advanceTimersByTime(1);
      expect(silence.isOver(passing)).toBe(true);
      silence.answered();
      vi.advanceTimersByTime(RIDE_OUT_MS - 1);
      expect(silence.isOver(passing)).toBe(false);
      expect(silence.isOver(new LockBackendError("redis", "", "wrong", { fatal: true }))).toBe(true);
      vi.advanceTimersByTime(1);
      expect(silence.isOver(passing)).toBe(true);
    } finally {
      vi.useRealTimers();
    }
  });
});
