/** What a decorated method's lock is called: a missing value, and a template that cannot be right, are errors. */
import { expect, test } from "vitest";
import { namerOf } from "../../src/adapters/nestjs/key.ts";

const name = (key: unknown, ...args: readonly unknown[]): string => namerOf(key, "@Lock()")({ tenant: "acme" }, args);

class Order {
  get id(): bigint {
    return 9n;
  }
}

test.each<[string, readonly unknown[], string]>([
  ["nightly", [], "nightly"],
  ["order:{0}", ["a"], "order:a"],
  ["order:{0.id}", [{ id: 7 }], "order:7"],
  ["order:{0.id}", [new Order()], "order:9"],
  ["{1.customer.id}/{0}", [0, { customer: { id: "x" } }], "x/0"],
  ["a:{0.1}", [["x", "y"]], "a:y"],
  ["a:{0.isOpen}!", [{ isOpen: false }], "a:false!"],
  ["a:{0}:{1}", ["x", "y:z"], "a:x:y:z"],
  ["of {0}", ["undefined"], "of undefined"],
  ["x{12}", [...Array(12).keys(), "thirteenth"], "xthirteenth"],
])("%s", (template, args, expected) => {
  expect(name(template, ...args)).toBe(expected);
});

test.each<[string, readonly unknown[], string]>([
  ["order:{0.id}", [{}], "{0.id} in @Lock() to be a text that is not empty, a number or a boolean, got undefined"],
  ["order:{0.id}", [], "{0} in @Lock() to be a text that is not empty, a number or a boolean, got undefined"],
  ["order:{0.customer.id}", [{ customer: null }], "{0.customer} in @Lock()"],
  ["order:{0}", [null], "got null"],
  ["order:{0}", [""], 'got ""'],
  ["order:{0}", [Number.NaN], "got NaN"],
  ["order:{0}", [Infinity], "got Infinity"],
  ["order:{0}", [{}], "got an object"],
  ["order:{0}", [["a"]], "got an array"],
  ["order:{0}", [new Date(0)], "got an object"],
  ["order:{0.toString}", ["a"], "got a function"],
  ["order:{0.__proto__}", [{}], "got an object"],
  ["order:{0}", [Symbol("a")], "got Symbol(a)"],
  ["a:{0}:{1}", ["x:y", "z"], '{0} in @Lock() not to contain ":", which separates it from the next one, got "x:y"'],
  ["a:{0}::{1}", ["x:", "z"], '{0} in @Lock() not to contain "::"'],
])("%s with a value that is missing, or would make two calls one: an error", (template, args, message) => {
  expect(() => name(template, ...args)).toThrow(expect.objectContaining({ code: "ERR_LOCK_ARGUMENT" }));
  expect(() => name(template, ...args)).toThrow(message);
});

test.each<[unknown, string]>([
  ["order:{id}", "{id} in @Lock() to begin with the index of an argument"],
  ["order:{}", "{} in @Lock() to begin with"],
  ["order:{01}", "{01} in @Lock() to begin with"],
  ["order:{0.}", "{0.} in @Lock() to begin with"],
  ["order:{0[id]}", "{0[id]} in @Lock() to begin with"],
  ["order:{0.id", "braces in @Lock() to be pairs"],
  ["order:0}", "braces in @Lock() to be pairs"],
  ["order:{{0}}", "braces in @Lock() to be pairs"],
  ["{0}{1}", "text between {0} and {1} in @Lock()"],
  ["", "a template such as"],
  [undefined, "a template such as"],
  [7, "a template such as"],
])("%s is no template: an error where the class is declared", (template, message) => {
  expect(() => namerOf(template, "@Lock()")).toThrow(expect.objectContaining({ code: "ERR_LOCK_ARGUMENT" }));
  expect(() => namerOf(template, "@Lock()")).toThrow(message);
});

test("a function gets the method's arguments and its this", () => {
  expect(
    name(function (this: { readonly tenant: string }, id: number) {
      return `${this.tenant}:${id}`;
    }, 7),
  ).toBe("acme:7");
});

test.each<unknown>([
  "order:undefined",
  "order:null",
  "NaN",
  "order:[object Object]",
  "a:undefined:b",
  "",
  undefined,
  ["a"],
  Promise.resolve("a"),
])("a function that returns %s names no lock: an error", (made) => {
  expect(() => name(() => made)).toThrow(expect.objectContaining({ code: "ERR_LOCK_ARGUMENT" }));
});

test.each(["order:undefinedx", "nullable", "user:Nan", "a_null"])("a function may return %s", (made) => {
  expect(name(() => made)).toBe(made);
});
