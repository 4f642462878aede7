/** What is kept of a response, as text: whatever a store gives back, only a record that is safe to send is believed. */
import "../fixed-seed.ts";
import fc from "fast-check";
import { expect, test } from "vitest";
import { CODEC, type Kept } from "../../src/adapters/http/record.ts";
import { outcomeName } from "../../src/adapters/http/names.ts";

const RECORD = { v: 1, fingerprint: "f", status: 200, headers: [["x-a", "1"]], text: "body" };
const FIELDS = ["fingerprint", "status", "headers", "text", "base64"] as const;
const NEVER = /[\r\n\0]|^(?:set-cookie2?|connection|transfer-encoding|content-length|keep-alive|trailer|upgrade)$/i;

test("any other text is refused, or is a record that is safe to send", () => {
  const odd = fc.oneof(
    fc.jsonValue(),
    fc.constantFrom("set-cookie", "a\r\nb", "__proto__", "Connection", -1, 99, 600, 200.5),
  );
  const broken = fc.record(
    {
      v: fc.oneof(fc.constant(1), odd),
      fingerprint: fc.oneof(fc.string(), odd),
      status: fc.oneof(fc.integer({ min: 100, max: 700 }), odd),
      headers: fc.oneof(fc.array(fc.oneof(fc.tuple(fc.oneof(fc.string(), odd), fc.oneof(fc.string(), odd)), odd)), odd),
      text: fc.oneof(fc.string(), odd),
      base64: fc.oneof(fc.base64String(), odd),
      ["__proto__"]: odd,
    },
    { requiredKeys: [] },
  );
  let believed = 0;
  fc.assert(
    fc.property(
      fc.oneof(
        broken,
        // All of it right but for one field, so that many are believed, and what is believed is looked at.
        fc.tuple(broken, fc.constantFrom(...FIELDS)).map(([one, field]) => ({ ...RECORD, [field]: one[field] })),
        odd,
      ),
      (value) => {
        let kept: Kept;
        try {
          kept = CODEC.decode(JSON.stringify(value));
        } catch {
          return;
        }
        believed += 1;
        expect([Number.isInteger(kept.status), kept.status >= 200, kept.status < 600]).toEqual([true, true, true]);
        for (const part of kept.headers.flat()) expect(part).not.toMatch(/[\r\n\0]/);
        for (const [name] of kept.headers) expect(name).not.toMatch(NEVER);
        expect(kept.body === undefined || kept.body instanceof Uint8Array).toBe(true);
      },
    ),
    { numRuns: 500 },
  );
  expect(believed).toBeGreaterThan(20);
  expect(CODEC.decode(JSON.stringify(RECORD)).body).toEqual(Buffer.from("body"));
});

test.each<[string, unknown]>([
  ["no JSON of ours", "not ours"],
  ["null", null],
  ["another version", { ...RECORD, v: 2 }],
  ["a header that would be two", { ...RECORD, headers: [["x", "1\r\nset-cookie: a=b"]] }],
  ["a cookie", { ...RECORD, headers: [["set-cookie", "a=b"]] }],
  ["a name that is not in lower case", { ...RECORD, headers: [["Set-Cookie", "a=b"]] }],
  ["a status that is none", { ...RECORD, status: 99 }],
  ["a body that is none", { ...RECORD, text: 1 }],
])("%s is refused", (_what, value) => {
  expect(() => CODEC.decode(JSON.stringify(value))).toThrow("it was not written by idempotent()");
});

test("any bytes come back as they were, or not at all", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 70_000 }), (body) => {
      const back = CODEC.decode(CODEC.encode({ fingerprint: "f", status: 200, headers: [], body })).body;
      if (body.length < 40_000) expect(back).toEqual(Buffer.from(body));
      else expect([undefined, Buffer.from(body).toString("hex")]).toContain(back && Buffer.from(back).toString("hex"));
    }),
    { numRuns: 50 },
  );
});

test("no scope and key together have the name of others", () => {
  const names = [
    ["a", "b:c"],
    ["a:b", "c"],
    ["a\0b", "c"],
    ["ab", "c"],
    ["", "abc"],
    ["\ud800", "c"],
    ["\ud801", "c"],
  ];
  expect(new Set(names.map(([scope, key]) => outcomeName(scope!, key!))).size).toBe(names.length);
});
