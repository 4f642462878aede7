/** Random and mutated headers for the guards in front of HTTP: an answer each time, nothing thrown, no mark that is not due. Seeded. */
import type { IncomingMessage, ServerResponse } from "node:http";

import fc from "fast-check";
import { expect, test } from "vitest";

import { expressGuard, fencedFetch } from "../../src/fence/http/index.ts";
import {
  fenceCeiling,
  FenceRejectedError,
  type MarkStore,
  parseFence,
  readFenceHeader,
} from "../../src/fence/index.ts";

const RUNS = { seed: 20_261_115, numRuns: 3000 } as const;
const LOCK = "invoice:42";

const item = fc
  .tuple(
    fc.constantFrom("invoice%3A42", "invoice:42", "%69nvoice:42", "a", "", "%zz", "%", "\u0000", "__proto__"),
    fc.constantFrom("=", "==", "", " = ", ";"),
    fc.oneof(
      fc.constantFrom("34", "0", "-1", "1e3", "034", "9223372036854775807", "9223372036854775808", "", "NaN", " 34 "),
      fc.bigInt(0n, 2n ** 65n).map(String),
    ),
  )
  .map((parts) => parts.join(""));
const header = fc.oneof(
  fc.string({ unit: "binary", maxLength: 80 }),
  fc.array(item, { maxLength: 5 }).map((items) => items.join(",")),
  fc.tuple(item, fc.nat(20_000)).map(([text, times]) => text.repeat(1 + (times % 900))),
);

/** Runs one request through the guard, without a network in between that would refuse some of it. */
function pass(marks: MarkStore, text: string): Promise<{ readonly status: number; readonly error?: unknown }> {
  const guard = expressGuard({ marks, lock: LOCK });
  const request = { headers: { "fencing-token": text } } as unknown as IncomingMessage;
  return new Promise((resolve) => {
    let status = 0;
    const response = {
      writeHead: (code: number) => {
        status = code;
        return response;
      },
      end: () => resolve({ status }),
    };
    guard(request, response as unknown as ServerResponse, (error) => resolve({ status: 200, error }));
  });
}

test("every header is admitted with its own plausible fence, or answered with 400 or 428 and leaves no mark (S175)", async () => {
  await fc.assert(
    fc.asyncProperty(header, async (text) => {
      const raised: [string, bigint][] = [];
      const marks: MarkStore = {
        advance: async (lock, fence) => {
          raised.push([lock, fence]);
          return fence;
        },
      };
      const { status, error } = await pass(marks, text);
      expect(error).toBeUndefined();
      const offered = readFenceHeader(text)?.get(LOCK);
      if (status === 200) {
        expect(raised).toEqual([[LOCK, offered]]);
        expect((offered as bigint) <= fenceCeiling()).toBe(true);
      } else {
        expect([400, 428]).toContain(status);
        expect(raised).toEqual([]);
      }
    }),
    RUNS,
  );
});

test("what a server says in its 412 is a refusal of what was sent, or nothing", async () => {
  await fc.assert(
    fc.asyncProperty(header, async (text) => {
      const send = fencedFetch({ name: LOCK, fence: 34n }, async () => {
        const response = new Response("", { status: 412 });
        // As bytes from a socket would be; what cannot be a header is none.
        try {
          response.headers.set("fencing-token", text);
        } catch {
          return response;
        }
        return response;
      });
      try {
        expect((await send("http://x/")).status).toBe(412);
      } catch (error) {
        expect(error).toBeInstanceOf(FenceRejectedError);
        expect((error as FenceRejectedError).current > 34n).toBe(true);
      }
    }),
    { ...RUNS, numRuns: 1500 },
  );
});

test("a fence in decimal is what BigInt() reads, below the ceiling, or none", () => {
  fc.assert(
    fc.property(fc.oneof(fc.string({ maxLength: 30 }), fc.bigInt(-5n, 2n ** 66n).map(String)), (text) => {
      const fence = parseFence(text, 2n ** 62n);
      if (fence === undefined) return;
      expect(String(fence)).toBe(text);
      expect(fence >= 0n && fence <= 2n ** 62n).toBe(true);
    }),
    RUNS,
  );
});
