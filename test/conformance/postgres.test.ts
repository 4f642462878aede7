import { type Library, postgresEntry, type Road } from "../backends/postgres/conformance-entry.ts";
import { conformanceTests } from "./conformance-tests.ts";

/** Of every test run. The whole matrix: HOLDFAST_POSTGRES=all npx vitest run test/conformance/postgres.test.ts */
const USUAL: readonly Library[] = ["pg pool"];
const ALL: readonly Library[] = [...USUAL, "pg client", "postgres.js"];
const ROADS: readonly Road[] = ["direct", "PgBouncer"];

for (const library of process.env["HOLDFAST_POSTGRES"] === "all" ? ALL : USUAL) {
  for (const road of ROADS) conformanceTests(postgresEntry(library, road));
}
