import "../../fixed-seed.ts";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { asPaths, escapedBelow, guidOf } from "../../../src/backends/zookeeper/paths.ts";

const paths = escapedBelow("/locks");

describe("names below a base", () => {
  test("stay unchanged when they are usual, so a Java service finds the same path", () => {
    for (const name of ["invoice-42", "invoice:42", "a.b_c~d", "über".normalize("NFC").replace("ü", "u"), "a b"]) {
      expect(paths.path(name)).toBe(`/locks/${name}`);
    }
    expect(escapedBelow("/").path("a")).toBe("/a");
  });

  test("become one segment each that ZooKeeper accepts, and can be read back", () => {
    fc.assert(
      fc.property(fc.oneof(fc.string({ unit: "binary" }), oddUnits), (name) => {
        const path = paths.path(name);
        const segment = path.slice("/locks/".length);
        expect(segment).toMatch(/^[ -.0-~]+$/);
        expect([".", "..", "zookeeper"]).not.toContain(segment);
        expect(paths.name("/locks", segment)).toBe(name);
      }),
    );
  });

  test("never share a path", () => {
    fc.assert(
      fc.property(oddUnits, oddUnits, (a, b) => {
        expect(paths.path(a) === paths.path(b)).toBe(a === b);
      }),
    );
  });

  test("are not read from nodes that no name maps to", () => {
    for (const child of ["%zz", "a%2f", "%41", "é", "%u0041", "%E9", "%%"])
      expect(paths.name("/", child)).toBeUndefined();
  });
});

/** Texts of what is easily confused: separators, escapes, halves of surrogate pairs, and nothing. */
const oddUnits = fc
  .array(
    fc.constantFrom("/", "%", "%2F", ".", "u", "\ud800", "\udc00", "D800", "a", "\0", "é", "e\u0301", "zookeeper"),
    {
      maxLength: 4,
    },
  )
  .map((units) => units.join(""));

describe("names that are paths", () => {
  test("are used unchanged, and refused where ZooKeeper has no such path", () => {
    expect(asPaths.path("/locks/a b/é")).toBe("/locks/a b/é");
    for (const name of ["", "a", "/", "/a/", "//a", "/a//b", "/./a", "/a/..", "/a\0", "/a\ud800"]) {
      expect(() => asPaths.path(name), JSON.stringify(name)).toThrow(/not a ZooKeeper path/);
    }
  });
});

test("a claim's id marks its nodes as ours, and two ids make different nodes", () => {
  const ids = ["AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAQ", "a", "b", "________________________"];
  const guids = ids.map((id) => guidOf(id, true));
  for (const guid of guids)
    expect(guid).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  expect(new Set(guids).size).toBe(ids.length);
  expect(guidOf("a", false)).toBe(guidOf("a", true).replaceAll("-", ""));
});
