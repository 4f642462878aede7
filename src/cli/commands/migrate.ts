/** `holdfast migrate`: makes the tables and functions that a store needs, or prints the SQL for people who run migrations themselves. */
import { backendOf } from "../../backends/all.ts";
import type { Command } from "../command.ts";
import { EXIT } from "../exit-codes.ts";
import { urlOf } from "../open-store.ts";
import { UsageError } from "../usage-error.ts";

export const migrateCommand: Command = {
  spec: {
    name: "migrate",
    summary: "Make the tables that locks in Postgres need",
    usage: ["migrate --url URL [--json]", "migrate --print"],
    about: [
      "Tables and functions go into the schema holdfast. It can be run again at any time, by several processes at once, and keeps what is there. The role needs the right to create a schema in the database, and no more.",
    ],
    flags: { print: { help: "print the SQL instead of running it; no URL is needed" } },
    examples: [
      ["holdfast migrate --url postgres://app@db/app", "make them, or update them"],
      ["holdfast migrate --print > holdfast.sql", "for your own migrations"],
      ["holdfast migrate --url postgres+shedlock://app@db/app", "ShedLock's table, if there is none"],
    ],
    exits: ["ok", "usage", "backend"],
  },
  async run(io, flags) {
    if (flags.has("print")) {
      const { LOCKS_MIGRATION } = await import("../../backends/postgres/migrate.ts");
      io.print(LOCKS_MIGRATION.trimEnd());
      return EXIT.ok;
    }
    const url = urlOf(io, flags);
    if (backendOf(url) === "shedlock") {
      const { migrateUrl } = await import("../../backends/shedlock/open.ts");
      const table = await migrateUrl(url);
      if (flags.has("json")) io.json({ table });
      else if (!flags.has("quiet")) io.print(`The table ${table} is there.`);
      return EXIT.ok;
    }
    if (backendOf(url) !== "postgres") {
      throw new UsageError(`Only Postgres needs tables: expected --url postgres://…, got ${io.mask(url)}`, "migrate");
    }
    const { migrateUrl } = await import("../../backends/postgres/open.ts");
    const version = await migrateUrl(url);
    if (flags.has("json")) io.json({ version });
    else if (!flags.has("quiet")) io.print(`The tables in the schema holdfast are of version ${version}.`);
    return EXIT.ok;
  },
};
