import { AssertionError } from "node:assert";
import { describe, expect, test } from "vitest";
import { conformance, LeftoverError, memberConformance, withoutDeclined } from "../../src/testing/index.ts";
import { brokenContext } from "./breaking.ts";
import { broken } from "./broken-backends.ts";

const promises = [...conformance, ...memberConformance];

describe("the conformance suite notices a backend that breaks:", () => {
  for (const { promise, check } of promises) {
    test(promise, async () => {
      const change = broken[promise];
      if (change === undefined) throw new Error(`no backend breaks ${JSON.stringify(promise)}: add one`);
      const error: unknown = await check(brokenContext(change)).catch((reason: unknown) => reason);
      expect(error).toBeInstanceOf(AssertionError);
      // The judge of leftovers would find some of them too; the promise's own check must.
      expect(error).not.toBeInstanceOf(LeftoverError);
    });
  }

  test("and every broken backend is for a promise that exists, each promise being named once", () => {
    const names = promises.map(({ promise }) => promise);
    expect(Object.keys(broken).toSorted()).toEqual(names.toSorted());
    expect(new Set(names).size).toBe(names.length);
  });
});

describe("where the id of a holder's claim may come late", () => {
  const exact = promises.find(({ promise }) => promise.startsWith("shows one lock by its exact name"))!;
  const check = (idOf: (id: string | undefined, renewed: boolean) => string | undefined): Promise<void> => {
    const context = brokenContext((right, shared) => ({
      renew: (claims, fences) => {
        shared.count = 2;
        return right.renew(claims, fences);
      },
      inspect: async (name) => {
        const state = await right.inspect(name);
        return { ...state, held: state.held.map((one) => ({ ...one, id: idOf(one.id, shared.count === 2) })) };
      },
    }));
    return exact.check({ ...context, lateIds: "it is written with the first renewal" });
  };

  test("it may be missing until the lease is renewed", () => check((id, renewed) => (renewed ? id : undefined)));

  test.each([
    ["be missing for ever", () => undefined],
    ["be another's before", (id: string | undefined, renewed: boolean) => (renewed ? id : "another")],
  ])("it may not %s", async (_what, idOf) => {
    await expect(check(idOf)).rejects.toThrow(AssertionError);
  });
});

describe("withoutDeclined()", () => {
  const [first, ...rest] = promises;

  test("leaves out what is declined with a reason", () => {
    expect(withoutDeclined(promises, { [first?.promise ?? ""]: "it has no lock to grant" })).toEqual(rest);
  });

  test("refuses to decline a promise that does not exist", () => {
    expect(() => withoutDeclined(promises, { "flies to the moon": "too heavy for it" })).toThrow(/does not exist/);
  });

  test("refuses to decline without a reason", () => {
    expect(() => withoutDeclined(promises, { [first?.promise ?? ""]: " " })).toThrow(/without a reason/);
  });
});
