/** redlock 5 itself and the drop-in, by the same names: what is true of one must be of the other. */
import * as ours from "../../../src/drop-ins/redlock/index.ts";

export type Library = typeof ours;

// Its types are not found by its `exports`, so they are ours: as far as the tests use them they are the same.
const name = "redlock";
const loaded = (await import(name)) as Library & { readonly default: { readonly default?: Library["default"] } };
const theirs = { ...loaded, default: loaded.default.default ?? loaded.default } as Library;

export { ours, theirs };
export const BOTH: readonly (readonly [string, Library])[] = [
  ["redlock 5", theirs],
  ["holdfast/redlock", ours],
];
