/** The connection for messages behind sentinels, when the primary becomes another at any step of its opening. */
import { expect, test, vi } from "vitest";
import type { Connection, OwnConnection, OwnConnectionEvents } from "../../../src/backends/redis/connection.ts";
import { Subscriber } from "../../../src/backends/redis/subscriber.ts";

interface Line extends OwnConnection {
  isOpen: boolean;
  /** Lets the server confirm. */
  confirm(): void;
}

/** Sentinels, a primary, and all lines to it that were ever opened. */
function stage() {
  const lines: Line[] = [];
  const dials: (() => void)[] = [];
  let moved = (): void => {};
  const connection = {
    topology: "sentinel",
    onReconnect(back: () => void) {
      moved = back;
      return () => {};
    },
    async openOwn(_: string, events: OwnConnectionEvents) {
      await new Promise<void>((resolve) => dials.push(resolve));
      let confirm = (): void => {};
      let refuse = (_error: Error): void => {};
      const line: Line = {
        isOpen: true,
        confirm: () => confirm(),
        send: async () => [],
        subscribe: () =>
          new Promise<void>((resolve, reject) => {
            [confirm, refuse] = [resolve, reject];
          }),
        subscribeSharded: async () => {},
        unsubscribe: async () => {},
        close() {
          if (!line.isOpen) return;
          line.isOpen = false;
          refuse(new Error("closed"));
          events.ended();
        },
      };
      lines.push(line);
      return line;
    },
  } as unknown as Connection;
  const dial = async (nth: number): Promise<Line> => {
    await vi.waitFor(() => expect(dials.length).toBeGreaterThanOrEqual(nth), 120_000);
    dials[nth - 1]!();
    return vi.waitFor(() => {
      expect(lines.length).toBeGreaterThanOrEqual(nth);
      return lines[nth - 1]!;
    }, 120_000);
  };
  return { connection, lines, dial, fail: () => moved() };
}

test.each(["while it is being opened", "while it is being subscribed", "once it is used"])(
  "%s: that one is closed, one new one takes its place, and none is left over",
  async (when) => {
    const { connection, lines, dial, fail } = stage();
    let ready = 0;
    const subscriber = new Subscriber(
      connection,
      () => {},
      () => ready++,
    );
    try {
      const added = subscriber.add("news").catch(() => {});
      if (when === "while it is being opened") {
        fail();
        await dial(1);
      } else {
        const first = await dial(1);
        await Promise.resolve();
        if (when === "once it is used") {
          first.confirm();
          await vi.waitFor(() => expect(ready).toBe(1), 120_000);
        }
        fail();
      }
      // The old primary is there, and answers as before.
      await Promise.resolve();
      lines[0]!.confirm();
      await added;
      expect(lines.map(({ isOpen }) => isOpen)).toEqual([false]);
      const before = ready;
      const second = await dial(2);
      await vi.waitFor(() => {
        second.confirm();
        expect(ready).toBe(before + 1);
      }, 120_000);
      expect(lines.map(({ isOpen }) => isOpen)).toEqual([false, true]);
    } finally {
      subscriber.close();
    }
    expect(lines.map(({ isOpen }) => isOpen)).toEqual([false, false]);
  },
);
