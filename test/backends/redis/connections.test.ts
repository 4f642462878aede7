/**
 * Connections of our own, without a server and on a clock of the test's own: the one for messages (when it is opened, asked whether it
 * lives, and given up), and those on which scripts wait for replicas (what is sent together, where it goes, and what an answer means).
 */
import { describe, expect, test } from "vitest";
import type { Connection, OwnConnection, OwnConnectionEvents } from "../../../src/backends/redis/connection.ts";
import { Replicator } from "../../../src/backends/redis/durability.ts";
import { slotOf } from "../../../src/backends/redis/keys.ts";
import { Subscriber } from "../../../src/backends/redis/subscriber.ts";
import type { FakeClock } from "../../../src/testing/fake-clock.ts";
import { onClock } from "./timers.ts";

type Answer = (command: readonly string[]) => unknown;

/** A connection that was opened, and what was asked on it. */
interface Line {
  readonly to: string;
  readonly asked: string[];
  readonly events: OwnConnectionEvents;
  isOpen: boolean;
}

/** A client whose own connections are made up. */
function client(topology: Connection["topology"] = "standalone") {
  const lines: Line[] = [];
  const tried: string[] = [];
  const world = {
    lines,
    tried,
    /** Of each connection that is opened: how it ends. */
    dial: (): Promise<void> => Promise.resolve(),
    subscribed: (): Promise<void> => Promise.resolve(),
    answer: (() => "PONG") as Answer,
    watching: 0,
    back: (): void => {},
    nodeOf: (key: string): string => key.slice(key.length),
    keyPrefix: "",
  };
  const openOwn = async (to: string, events: OwnConnectionEvents): Promise<OwnConnection> => {
    tried.push(to);
    await world.dial();
    const line: Line = { to, asked: [], events, isOpen: true };
    lines.push(line);
    const note = (text: string): void => void line.asked.push(text);
    return {
      get isOpen() {
        return line.isOpen;
      },
      send: async (commands) => {
        note(commands.map((command) => command.join(" ")).join(", "));
        const answers = await Promise.all(commands.map((command) => world.answer(command)));
        if (!line.isOpen) throw new Error("closed");
        return answers;
      },
      subscribe: async (channels) => (note(`+${channels.join()}`), world.subscribed()),
      subscribeSharded: async (channel) => note(`+s ${channel}`),
      unsubscribe: async (channel, sharded) => note(`-${sharded ? "s " : ""}${channel}`),
      close: () => {
        if (!line.isOpen) return;
        line.isOpen = false;
        events.ended();
      },
    };
  };
  const connection = {
    topology,
    get keyPrefix() {
      return world.keyPrefix;
    },
    nodeOf: (key: string) => world.nodeOf(key),
    onReconnect: (back: () => void) => {
      world.watching++;
      world.back = back;
      return () => world.watching--;
    },
    openOwn,
  } as unknown as Connection;
  return { world, connection };
}

describe("messages", () => {
  function subscriber(topology?: Connection["topology"], to?: string, sharded?: boolean) {
    const { world, connection } = client(topology);
    const heard: string[] = [];
    const all = new Subscriber(
      connection,
      (channel, text) => heard.push(`${channel}: ${text}`),
      () => heard.push("ready"),
      to,
      sharded,
    );
    return { world, heard, all };
  }
  const outcome = (asked: Promise<unknown>): { readonly is: () => unknown } => {
    let is: unknown = "waiting";
    asked.then(
      () => (is = "done"),
      (error: Error) => (is = error.message),
    );
    return { is: () => is };
  };

  test("come over one connection, however many channels there are", () =>
    onClock(async (clock) => {
      const { world, heard, all } = subscriber();
      await Promise.all([all.add("a"), all.add("b")]);
      expect([world.tried, world.lines[0]!.asked, heard]).toEqual([[""], ["+a,b"], ["ready"]]);
      world.lines[0]!.events.message("a", "text");
      await all.add("c");
      await all.remove("a");
      await all.remove("a");
      await all.remove("never");
      expect([world.lines.length, world.lines[0]!.asked, heard]).toEqual([
        1,
        ["+a,b", "+c", "-a"],
        ["ready", "a: text"],
      ]);
      all.close();
      await clock.advance(60_000);
      expect([world.lines.map(({ isOpen }) => isOpen), world.tried.length, clock.timers]).toEqual([[false], 1, 0]);
    }));

  test("of sharded channels are asked for in both ways, of the node that has them", () =>
    onClock(async () => {
      const { world, all } = subscriber("cluster", "h:1", true);
      await all.add("a");
      await all.add("b");
      await all.remove("b");
      expect([world.tried, world.lines[0]!.asked]).toEqual([["h:1"], ["+s a", "+a", "+s b", "+b", "-s b"]]);
      all.close();
    }));

  test("a channel that comes while others are being subscribed comes too, and one that goes meanwhile goes again", () =>
    onClock(async (clock) => {
      const { world, heard, all } = subscriber();
      const gates: (() => void)[] = [];
      world.subscribed = () => new Promise((resolve) => gates.push(resolve));
      const [a, b] = [outcome(all.add("a")), outcome(all.add("b"))];
      await clock.settle();
      const c = outcome(all.add("c"));
      await all.remove("a");
      gates[0]!();
      await clock.settle();
      expect([world.lines[0]!.asked, heard, c.is()]).toEqual([["+a,b", "+c"], [], "waiting"]);
      gates[1]!();
      await clock.settle();
      expect([world.lines[0]!.asked, heard]).toEqual([["+a,b", "+c", "-a"], ["ready"]]);
      expect([a, b, c].map(({ is }) => is())).toEqual(["done", "done", "done"]);
      all.close();
    }));

  test("a server that cannot be reached is tried again after pauses that double, up to five seconds, and from the start after a success", () =>
    onClock(async (clock) => {
      const { world, heard, all } = subscriber();
      let fails = true;
      world.dial = () => (fails ? Promise.reject(new Error("ECONNREFUSED")) : Promise.resolve());
      const first = outcome(all.add("a"));
      await clock.settle();
      expect(first.is()).toBe("ECONNREFUSED");
      const pauses = async (count: number): Promise<number[]> => {
        const found: number[] = [];
        while (found.length < count) {
          const before = [clock.now(), world.tried.length] as const;
          while (world.tried.length === before[1]) await clock.advance(1);
          found.push(clock.now() - before[0]);
        }
        return found;
      };
      expect(await pauses(9)).toEqual([50, 100, 200, 400, 800, 1600, 3200, 5000, 5000]);
      fails = false;
      await clock.advance(5000);
      expect(heard).toEqual(["ready"]);
      fails = true;
      world.lines[0]!.isOpen = false;
      world.lines[0]!.events.ended();
      expect(await pauses(2)).toEqual([50, 100]);
      // One who asks in between does not wait for the next try.
      const now = outcome(all.add("b"));
      await clock.settle();
      expect(now.is()).toBe("ECONNREFUSED");
      for (const channel of ["a", "b"]) await all.remove(channel);
      const before = world.tried.length;
      await clock.advance(60_000);
      expect(world.tried.length).toBe(before + 1);
      all.close();
    }));

  test("a connection is asked every five seconds whether it lives, and replaced where it has not said so by the next time", () =>
    onClock(async (clock) => {
      const { world, heard, all } = subscriber();
      let answers = true;
      world.answer = () => (answers ? "PONG" : new Promise(() => {}));
      await all.add("a");
      const pings = (): number => world.lines[0]!.asked.filter((text) => text === "PING").length;
      await clock.advance(4999);
      expect(pings()).toBe(0);
      await clock.advance(1);
      expect(pings()).toBe(1);
      await clock.advance(10_000);
      expect([pings(), world.lines.length]).toEqual([2, 1]);
      answers = false;
      await clock.advance(10_000);
      expect([pings(), world.lines[0]!.isOpen]).toEqual([3, true]);
      await clock.advance(4999);
      expect(world.lines[0]!.isOpen).toBe(true);
      await clock.advance(1);
      expect(world.lines[0]!.isOpen).toBe(false);
      answers = true;
      await clock.advance(50);
      expect([world.lines.length, heard]).toEqual([2, ["ready", "ready"]]);
      // One that has ended by itself is not asked.
      world.lines[1]!.isOpen = false;
      const asked = world.lines[1]!.asked.length;
      await clock.advance(5000);
      expect(world.lines[1]!.asked.length).toBe(asked);
      all.close();
    }));

  test("a connection on which SUBSCRIBE fails, or has no answer for five seconds, is given up, and another one is opened", () =>
    onClock(async (clock) => {
      const { world, heard, all } = subscriber();
      world.subscribed = () => new Promise(() => {});
      const first = outcome(all.add("a"));
      await clock.advance(4999);
      expect([first.is(), world.lines[0]!.isOpen]).toEqual(["waiting", true]);
      await clock.advance(1);
      expect([first.is(), world.lines[0]!.isOpen]).toEqual([
        expect.stringContaining("did not answer SUBSCRIBE within 5 s"),
        false,
      ]);
      world.subscribed = () => Promise.resolve();
      await clock.advance(50);
      expect([world.lines.length, heard]).toEqual([2, ["ready"]]);
      world.subscribed = () => Promise.reject(new Error("NOPERM"));
      const second = outcome(all.add("b"));
      await clock.settle();
      expect([second.is(), world.lines[1]!.isOpen]).toEqual(["NOPERM", false]);
      world.subscribed = () => Promise.resolve();
      await clock.advance(50);
      expect(world.lines[2]!.asked).toEqual(["+a,b"]);
      all.close();
    }));

  test("a connection that ends while it is being subscribed is not used", () =>
    onClock(async (clock) => {
      const { world, heard, all } = subscriber();
      world.subscribed = () => {
        world.lines[0]!.isOpen = false;
        return Promise.resolve();
      };
      const first = outcome(all.add("a"));
      await clock.settle();
      expect([first.is(), heard]).toEqual(["the connection for messages ended", []]);
      all.close();
    }));

  test.each(["opened", "subscribed"])("close() while a connection is being %s leaves none", (when) =>
    onClock(async (clock) => {
      const { world, heard, all } = subscriber();
      let go!: () => void;
      const slow = (): Promise<void> => new Promise((resolve) => (go = resolve));
      if (when === "opened") world.dial = slow;
      else world.subscribed = slow;
      const asked = outcome(all.add("a"));
      await clock.settle();
      all.close();
      go();
      await clock.advance(60_000);
      expect([world.lines.map(({ isOpen }) => isOpen), world.tried.length, heard]).toEqual([[false], 1, []]);
      expect(asked.is()).not.toBe("waiting");
    }),
  );

  test("only behind sentinels a reconnect of the client means another primary", () =>
    onClock(async (clock) => {
      for (const [topology, watching] of [
        ["standalone", 0],
        ["cluster", 0],
        ["sentinel", 1],
      ] as const) {
        const { world, all } = subscriber(topology);
        await all.add("a");
        expect(world.watching).toBe(watching);
        world.back();
        expect(world.lines[0]!.isOpen).toBe(watching === 0);
        all.close();
        expect(world.watching).toBe(0);
        await clock.settle();
      }
    }));
});

describe("scripts that wait for replicas", () => {
  const SCRIPT = { sha: "sha", source: "return 1" } as never;

  /** What the nodes say to scripts; WAIT says how many. */
  function replicator(topology: Connection["topology"] = "standalone") {
    const { world, connection } = client(topology);
    const said: { script: Answer; wait: unknown } = { script: () => 7, wait: 2 };
    world.answer = (command) =>
      command[0] === "WAIT" ? said.wait : command[0] === "ASKING" ? "OK" : said.script(command);
    const all = new Replicator(connection, { replicas: 2, waitMs: 100 });
    const run = (key = "k", args: readonly string[] = []): Promise<unknown> => all.run(SCRIPT, [key], args);
    return { world, said, all, run, asked: () => world.lines.map(({ to, asked }) => [to, asked]) };
  }
  const failed = (asked: Promise<unknown>): Promise<unknown> =>
    asked.then(
      () => "answered",
      (error: Error) => error.message,
    );
  const run = async (work: (clock: FakeClock) => Promise<void>): Promise<void> => onClock(work);

  test("are sent with WAIT behind them, those that come meanwhile together, and each has its own answer", () =>
    run(async (clock) => {
      const { world, said, all, run: ask, asked } = replicator();
      world.keyPrefix = "app:";
      said.script = ([, , , key]) => key;
      const answers = ["a", "b", "c"].map((key) => ask(key, ["x"]));
      await clock.settle();
      expect(await Promise.all(answers)).toEqual(["a", "b", "c"].map((key) => ({ reply: `app:${key}`, replicas: 2 })));
      expect(asked()).toEqual([
        ["", ["EVALSHA sha 1 app:a x, WAIT 2 100", "EVALSHA sha 1 app:b x, EVALSHA sha 1 app:c x, WAIT 2 100"]],
      ]);
      expect(clock.timers).toBe(0);
      all.close();
      expect([world.lines[0]!.isOpen, world.watching]).toEqual([false, 0]);
    }));

  test("that the server does not know are sent as text, and what it refuses is refused", () =>
    run(async () => {
      const { said, run: ask, asked } = replicator();
      said.script = ([name]) => (name === "EVALSHA" ? new Error("NOSCRIPT none") : 5);
      expect(await ask()).toEqual({ reply: 5, replicas: 2 });
      expect(asked()).toEqual([["", ["EVALSHA sha 1 k, WAIT 2 100", "EVAL return 1 1 k, WAIT 2 100"]]]);
      said.script = () => new Error("OOM");
      expect(await failed(ask())).toBe("OOM");
    }));

  test("whose WAIT is refused have no answer, except those that were refused themselves", () =>
    run(async () => {
      const { said, run: ask } = replicator();
      said.wait = new Error("WAIT cannot be used");
      expect(await failed(ask())).toBe("WAIT cannot be used");
      said.script = () => new Error("OOM");
      expect(await failed(ask())).toBe("OOM");
    }));

  test("follow a slot to where it is, remember that, and forget it with a reconnect", () =>
    run(async () => {
      const { world, said, run: ask, asked } = replicator("cluster");
      world.nodeOf = () => "a:1";
      said.script = ([, , , key]) =>
        world.lines.at(-1)!.to === "a:1" ? new Error(`MOVED ${slotOf(key!)} b:2`) : "here";
      expect(await ask("k")).toMatchObject({ reply: "here" });
      expect(asked().map(([to]) => to)).toEqual(["a:1", "b:2"]);
      said.script = () => "still";
      expect(await ask("k")).toMatchObject({ reply: "still" });
      expect(world.lines.map((line) => line.asked.length)).toEqual([1, 2]);
      // Another slot is not known to have moved.
      expect(slotOf("other")).not.toBe(slotOf("k"));
      await ask("other");
      expect(world.lines.map((line) => line.asked.length)).toEqual([2, 2]);
      world.back();
      expect(world.lines.map(({ isOpen }) => isOpen)).toEqual([false, false]);
      await ask("k");
      expect(asked().map(([to]) => to)).toEqual(["a:1", "b:2", "a:1"]);
    }));

  test("ask the node to which a slot is being moved once, and the old one the next time", () =>
    run(async () => {
      const { world, said, run: ask, asked } = replicator("cluster");
      world.nodeOf = () => "a:1";
      said.script = () => (world.lines.length === 1 ? new Error("ASK 5 b:2") : "there");
      expect(await ask()).toMatchObject({ reply: "there" });
      expect(asked()[1]).toEqual(["b:2", ["ASKING, EVALSHA sha 1 k, WAIT 2 100"]]);
      await ask();
      expect(world.lines.map((line) => line.asked.length)).toEqual([2, 1]);
    }));

  test("that are sent on and on give up after eight times", () =>
    run(async () => {
      const { world, said, run: ask } = replicator("cluster");
      said.script = () => new Error(`MOVED 5 n:${world.tried.length}`);
      expect(await failed(ask())).toContain("MOVED");
      expect(world.tried).toHaveLength(9);
    }));

  test("have five seconds more than WAIT, and are unknown then", () =>
    run(async (clock) => {
      const { connection, world } = client();
      let close: ((error: Error) => void) | undefined;
      const openOwn = async (): Promise<Partial<OwnConnection>> => ({
        isOpen: true,
        send: () => new Promise((_, reject) => (close = reject)),
        close: () => close?.(new Error("closed")),
      });
      const all = new Replicator({ ...connection, openOwn } as never, { replicas: 1, waitMs: 100 });
      let said: unknown = "waiting";
      all.run(SCRIPT, ["k"], []).catch((error: Error) => (said = error.message));
      await clock.advance(5099);
      expect(said).toBe("waiting");
      await clock.advance(1);
      expect([said, world.watching]).toEqual(["closed", 1]);
    }));
});
