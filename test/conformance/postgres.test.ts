import { postgresEntry } from "../backends/postgres/conformance-entry.ts";
import { conformanceTests } from "./conformance-tests.ts";

conformanceTests(postgresEntry("pg pool", "direct"));
conformanceTests(postgresEntry("pg pool", "PgBouncer"));
