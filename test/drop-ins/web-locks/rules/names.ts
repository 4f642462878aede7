/** Rules about names: any sequence of UTF-16 units, and never two of them as one. */
import assert from "node:assert/strict";
import type { Rule } from "./rule.ts";

export const nameRules: readonly Rule[] = [
  ...Object.entries({
    "an empty name": "",
    "a name with a NUL": "abc\0def",
    "a lone high surrogate": "\uD800",
    "a lone low surrogate": "\uDC00",
    "a surrogate pair the wrong way round": "\uDC00\uD800",
    "a noncharacter": "\uFFFF",
    "a whole pair": "\uD83D\uDE00",
    "a backslash": "a\\b\\",
    "what looks like a path or a pattern": "../*?[a]{b}:%00",
  }).map(([what, given]): Rule => ({
    rule: `${what} is the name of the lock as it was given`,
    async run(locks) {
      await locks.request(given, async (lock) => {
        assert.equal(lock?.name, given);
        const { held } = await locks.query();
        assert.equal(held.filter(({ name }) => name === given).length, 1);
      });
    },
  })),
  {
    rule: "names that differ only in what is not Unicode, or in how it could be written, are different locks",
    async run(locks) {
      const names = [
        "\uD800",
        "\uFFFD",
        "\\ud800",
        "\\uD800",
        "\\\\ud800",
        "",
        "\\e",
        "\\",
        "\uDBFF",
        "\uDC00\uD800",
        "\\udc00\\ud800",
      ];
      const take = (at: number): Promise<unknown> =>
        at === names.length
          ? Promise.resolve()
          : locks.request(names[at] as string, { ifAvailable: true }, async (lock) => {
              assert.equal(lock?.name, names[at]);
              await take(at + 1);
            });
      await take(0);
    },
  },
  {
    rule: "names are compared unit by unit, without normalisation or case",
    async run(locks, name) {
      await locks.request(`${name}\u00E9`, async () => {
        for (const other of [`${name}e\u0301`, `${name}\u00C9`, `${name}\u00E9 `])
          assert.ok(await locks.request(other, { ifAvailable: true }, (lock) => lock !== null));
      });
    },
  },
];
