import { describe, expect, test } from "vitest";
import { blockedBy, holdersOf, inOrder, overflow } from "../../../src/backends/zookeeper/contenders.ts";
import { guidOf } from "../../../src/backends/zookeeper/paths.ts";

const curator = "_c_4e6ce9f9-0e37-4f6c-95c7-1d13c2408e9f";
const java = (kind: string, digits: string): string => `${curator}-${kind}${digits}`;
const ours = (digits: string): string => `_c_${guidOf("x", true)}-lock-${digits}`;

describe("the queue", () => {
  test("is one for Curator's, kazoo's, go-zookeeper's, DistributedLock's and our nodes, in the order of their numbers (S115)", () => {
    const names = [
      java("lock-", "0000000009"),
      "4e6ce9f90e374f6c95c71d13c2408e9f__lock__0000000002",
      "_c_ffffffffffffffffffffffffffffffff-lock-0000000003",
      ours("0000000001"),
      "lock-0000000004",
      java("__READ__", "0000000000"),
      "4e6ce9f90e374f6c95c71d13c2408e9f__rlock__0000000010",
      java("__WRIT__", "0000000011"),
    ];
    const order = inOrder([...names, "locks", "leases", "unrelated", "lock-12", "notes-lock-"]);
    expect(order.map(({ sequence }) => sequence)).toEqual([0, 1, 2, 3, 4, 9, 10, 11]);
    expect(order.map(({ mode }) => mode[0])).toEqual(["s", "e", "e", "e", "e", "e", "s", "e"]);
    expect(order.filter(({ isOurs }) => isOurs).map(({ sequence }) => sequence)).toEqual([1]);
  });

  test("admits readers that have no writer before them, and each waiter waits for one node only", () => {
    const kinds = ["__READ__", "__READ__", "__WRIT__", "__READ__", "__WRIT__", "__READ__"];
    const order = inOrder(kinds.map((kind, at) => java(kind, String(at).padStart(10, "0"))));
    expect(holdersOf(order).map(({ sequence }) => sequence)).toEqual([0, 1]);
    expect(order.map((_, index) => blockedBy(order, index)?.sequence)).toEqual([undefined, undefined, 1, 2, 3, 4]);
    expect(holdersOf(order.slice(2)).map(({ sequence }) => sequence)).toEqual([2]);
  });

  test("respects a reader that has its writer's number, as Curator's downgrade makes it", () => {
    const order = inOrder([java("__WRIT__", "0000000006"), java("__READ__", "0000000005")]);
    expect(blockedBy(order, 1)?.sequence).toBe(5);
  });

  test("continues over the wrap of the 32-bit numbers", () => {
    const order = inOrder([ours("-2147483647"), ours("2147483646"), ours("-2147483648"), ours("2147483647")]);
    expect(order.map(({ sequence }) => sequence)).toEqual([2147483646, 2147483647, -2147483648, -2147483647]);
  });
});

describe("the end of the sequence numbers", () => {
  test("is harmless among our own nodes, and breaks the order where others contend", () => {
    expect(overflow(inOrder([ours("2147483647"), ours("-2147483648")]))).toBe("none");
    expect(overflow(inOrder([java("lock-", "2147483647"), ours("-2147483648")]))).toBe("broken");
    expect(overflow(inOrder([ours("2147483647"), java("lock-", "-2147483648")]))).toBe("broken");
  });

  test("is announced a million acquisitions before", () => {
    expect(overflow(inOrder([java("lock-", "2146483646")]))).toBe("none");
    expect(overflow(inOrder([java("lock-", "2146483648")]))).toBe("near");
    expect(overflow([])).toBe("none");
  });
});
