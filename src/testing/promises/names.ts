/** Promises about names: any string is one, and two different names never share a lock. */
import assert from "node:assert/strict";
import { type ConformancePromise, promise } from "./promise.ts";

/** Endings that stores, file systems and wire formats like to confuse. */
const ENDINGS: readonly string[] = [
  "a",
  "A",
  "a ",
  " a",
  "a/",
  "/a",
  "a//b",
  "a/b",
  "a/./b",
  "..",
  ".",
  "a%2Fb",
  "a%252Fb",
  "a:b",
  "a\\b",
  "{a}",
  "}{",
  "a\nb",
  "a\r\nb",
  "a\tb",
  "a\0b",
  "a\0",
  "é",
  "e\u0301",
  "ß",
  "ss",
  "🔒",
  "\u202e",
  "\ufeff",
  "a'b",
  'a"b',
  "a;--",
  "$1",
  "*",
  "null",
  "__proto__",
  "constructor",
  "CON",
  "a.",
  "-0000000001",
];

const NAME_BYTES_MAX = 1024;

export const namePromises: readonly ConformancePromise[] = [
  promise("takes any string as a name, and never confuses two", async (trial) => {
    const [a, b] = [await trial.open(), await trial.open()];
    const names = ENDINGS.map((end) => trial.name + end);
    const claims = names.map((name) => trial.claim({ name }));
    await Promise.all(claims.map((claim) => trial.granted(a, claim)));
    await Promise.all(
      names.map((name) => trial.refused(b, trial.claim({ name, queues: false }), `${JSON.stringify(name)} is held`)),
    );
    const seen = (await b.query(trial.name)).held.map(({ name }) => name);
    assert.deepEqual(seen.toSorted(), names.toSorted(), "query shows each name as it was given");
    for (const claim of claims) assert.equal(await a.release(claim), "held", `released ${JSON.stringify(claim.name)}`);
    await trial.nothingLeft(b);
  }),

  promise("takes names of 1 KiB that differ in their last character only", async (trial) => {
    const backend = await trial.open();
    const fill = (filler: string, last: string): string => {
      const room = NAME_BYTES_MAX - Buffer.byteLength(trial.name) - Buffer.byteLength(last);
      return trial.name + filler.repeat(Math.floor(room / Buffer.byteLength(filler))) + last;
    };
    const names = ["x", "/", "é", "🔒"].flatMap((filler) => [fill(filler, "1"), fill(filler, "2")]);
    await Promise.all(names.map((name) => trial.granted(backend, trial.claim({ name }))));
    const seen = (await backend.query(trial.name)).held.map(({ name }) => name);
    assert.deepEqual(seen.toSorted(), names.toSorted(), "query shows each name as it was given");
  }),
];
