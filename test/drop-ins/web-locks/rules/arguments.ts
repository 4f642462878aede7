/** Rules about what request() is given, and about the two interfaces. */
import assert from "node:assert/strict";
import { rejectsExactly, rejectsWith, type Rule, unreached, untyped } from "./rule.ts";

const NO_FUNCTIONS = [undefined, null, 123, "abc", [], {}, Promise.resolve(), Symbol("a")];

function tagOf(one: unknown): string {
  return Object.prototype.toString.call(one);
}

export const argumentRules: readonly Rule[] = [
  {
    rule: "a name and a callback are required, and what is wrong is a rejection, not a throw",
    async run(locks, name) {
      await rejectsWith("TypeError", untyped(locks));
      await rejectsWith("TypeError", untyped(locks, name));
    },
  },
  {
    rule: "the callback must be a function, with and without options",
    async run(locks, name) {
      for (const callback of NO_FUNCTIONS) {
        await rejectsWith("TypeError", untyped(locks, name, callback));
        await rejectsWith("TypeError", untyped(locks, name, {}, callback));
      }
    },
  },
  {
    rule: "with options the third argument is the callback, whatever the second is",
    async run(locks, name) {
      await rejectsWith("TypeError", untyped(locks, name, unreached, undefined));
      assert.equal(await untyped(locks, name, unreached, () => 1), 1);
      assert.equal(await untyped(locks, name, {}, () => 1, unreached), 1);
    },
  },
  {
    rule: "options are an object, or none",
    async run(locks, name) {
      for (const options of ["abc", 12, true, Symbol("a"), 1n])
        await rejectsWith("TypeError", untyped(locks, name, options, unreached));
      for (const options of [undefined, null, {}, [], new Date()])
        assert.equal(await untyped(locks, name, options, ({ mode }: { mode: string }) => mode), "exclusive");
    },
  },
  {
    rule: "the mode is converted to a string, and is exclusive or shared",
    async run(locks, name) {
      for (const mode of ["foo", null, "", "Exclusive", "exclusive ", 1, {}])
        await rejectsWith("TypeError", untyped(locks, name, { mode }, unreached));
      await rejectsWith("TypeError", untyped(locks, name, { mode: Symbol("shared") }, unreached));
      const modeOf = (mode: unknown): Promise<unknown> =>
        untyped(locks, name, { mode }, (lock: { mode: string }) => lock.mode);
      assert.equal(await modeOf(undefined), "exclusive");
      assert.equal(await modeOf("exclusive"), "exclusive");
      assert.equal(await modeOf("shared"), "shared");
      assert.equal(await modeOf({ toString: () => "shared" }), "shared");
      assert.equal(await modeOf(["shared"]), "shared");
    },
  },
  {
    rule: "the signal must be an AbortSignal",
    async run(locks, name) {
      const looksLikeOne = { aborted: false, addEventListener: () => {}, removeEventListener: () => {} };
      const others = ["text", 12.34, false, null, {}, Symbol("a"), unreached, globalThis, looksLikeOne];
      for (const signal of [...others, Object.create(AbortSignal.prototype)])
        await rejectsWith("TypeError", untyped(locks, name, { signal }, unreached));
    },
  },
  {
    rule: "steal and ifAvailable are converted to booleans",
    async run(locks, name) {
      await locks.request(name, async () => {
        assert.equal(await untyped(locks, name, { ifAvailable: "yes" }, (lock: unknown) => lock), null);
      });
      await rejectsWith("NotSupportedError", untyped(locks, name, { ifAvailable: 1, steal: {} }, unreached));
      assert.equal(await untyped(locks, name, { ifAvailable: 0, steal: "" }, () => 1), 1);
    },
  },
  {
    rule: "names that begin with '-' are reserved, others with one are not",
    async run(locks, name) {
      for (const reserved of ["-", "-a", `-${name}`])
        await rejectsWith("NotSupportedError", locks.request(reserved, unreached));
      assert.equal(await locks.request(`${name}-`, (lock) => lock?.name), `${name}-`);
    },
  },
  {
    rule: "options that contradict each other are not supported",
    async run(locks, name) {
      const { signal } = new AbortController();
      await rejectsWith("NotSupportedError", locks.request(name, { steal: true, ifAvailable: true }, unreached));
      await rejectsWith("NotSupportedError", locks.request(name, { steal: true, mode: "shared" }, unreached));
      await rejectsWith("NotSupportedError", locks.request(name, { steal: true, signal }, unreached));
      await rejectsWith("NotSupportedError", locks.request(name, { ifAvailable: true, signal }, unreached));
    },
  },
  {
    rule: "a contradiction, or a reserved name, is reported before a signal that has aborted",
    async run(locks, name) {
      const signal = AbortSignal.abort("given up");
      await rejectsWith("NotSupportedError", locks.request(name, { steal: true, signal }, unreached));
      await rejectsWith("NotSupportedError", locks.request(`-${name}`, { signal }, unreached));
    },
  },
  {
    rule: "the name is converted to a string",
    async run(locks, name) {
      const nameOf = (given: unknown): Promise<unknown> => untyped(locks, given, (lock: { name: string }) => lock.name);
      assert.equal(await nameOf(123), "123");
      assert.equal(await nameOf(null), "null");
      assert.equal(await nameOf(undefined), "undefined");
      assert.equal(await nameOf({ toString: () => name }), name);
      await rejectsWith("TypeError", nameOf(Symbol("a")));
    },
  },
  {
    rule: "what a conversion throws is what the request rejects with",
    async run(locks, name) {
      const error = { name: "mine" };
      const throws = (): never => {
        throw error;
      };
      await rejectsExactly(error, untyped(locks, { toString: throws }, unreached));
      await rejectsExactly(error, untyped(locks, name, { mode: { toString: throws } }, unreached));
      const options = Object.defineProperty({}, "steal", { get: throws });
      await rejectsExactly(error, untyped(locks, name, options, unreached));
    },
  },
  {
    rule: "options are read in the order of their names, each once, after the name and before the callback",
    async run(locks, name) {
      const read: string[] = [];
      const options = {};
      for (const option of ["steal", "signal", "mode", "ifAvailable"])
        Object.defineProperty(options, option, { get: () => void read.push(option) });
      const named = { toString: () => (read.push("name"), name) };
      await untyped(locks, named, options, () => {});
      assert.deepEqual(read, ["name", "ifAvailable", "mode", "signal", "steal"]);
      await rejectsWith("TypeError", untyped(locks, named, options, "no function"));
      assert.equal(read.length, 10, "before the callback is looked at");
    },
  },
  {
    rule: "request() and query() of another object reject",
    async run(locks, name) {
      const { request, query } = Object.getPrototypeOf(locks) as Readonly<Record<string, () => unknown>>;
      await rejectsWith("TypeError", Reflect.apply(request!, {}, [name, unreached]) as Promise<unknown>);
      await rejectsWith("TypeError", Reflect.apply(query!, {}, []) as Promise<unknown>);
    },
  },
  {
    rule: "users construct neither a Lock nor a LockManager",
    async run(locks, name) {
      await locks.request(name, (lock) => {
        for (const one of [lock as object, locks]) {
          const kind = one.constructor as new () => unknown;
          assert.throws(() => new kind(), TypeError);
          assert.throws(() => (kind as unknown as () => unknown)(), TypeError);
        }
      });
    },
  },
  {
    rule: "the interfaces look as Web IDL says: names, tags, lengths, and members that can be enumerated",
    async run(locks, name) {
      const kind = locks.constructor as unknown as { readonly name: string; readonly length: number };
      assert.deepEqual([kind.name, kind.length, tagOf(locks)], ["LockManager", 0, "[object LockManager]"]);
      assert.deepEqual([locks.request.length, locks.query.length], [2, 0]);
      assert.deepEqual(Object.keys(locks), []);
      const members: string[] = [];
      for (const member in locks) members.push(member);
      assert.deepEqual(members.toSorted(), ["query", "request"]);
      await locks.request(name, (lock) => {
        assert.deepEqual([(lock as object).constructor.name, tagOf(lock)], ["Lock", "[object Lock]"]);
        assert.deepEqual(Object.keys(lock as object), []);
        const found: string[] = [];
        for (const member in lock) found.push(member);
        assert.ok(found.includes("name") && found.includes("mode"));
        assert.throws(() => ((lock as { mode: string }).mode = "shared"), TypeError);
      });
    },
  },
  {
    rule: "the callback is called later, once, with the lock alone",
    async run(locks, name) {
      const calls: unknown[][] = [];
      const request = locks.request(name, function (this: unknown, ...given: unknown[]) {
        calls.push([this, given.length, (given[0] as { name: string }).name]);
      });
      assert.deepEqual(calls, []);
      assert.ok(request instanceof Promise);
      await request;
      assert.deepEqual(calls, [[undefined, 1, name]]);
    },
  },
  {
    rule: "a request that was rejected leaves nothing behind",
    async run(locks, name) {
      await rejectsWith("TypeError", untyped(locks, name, { mode: "foo" }, unreached));
      await rejectsWith("NotSupportedError", locks.request(name, { steal: true, ifAvailable: true }, unreached));
      assert.ok(await locks.request(name, { ifAvailable: true }, (lock) => lock !== null));
    },
  },
];
