// Turns every folder's sql/*.sql into one generated module, since the compiler does not copy .sql files.
//
// Each file holds one statement under a header that is a contract: a sentence of purpose, then the parameters as
// "-- $1 name". A parameter that is used but not named, or named but not used, fails the build.
// `--check` writes nothing and fails when a module is not what its sources say.
import { readdirSync, readFileSync, mkdirSync, writeFileSync, existsSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const FOLDERS = ["src/fence", "src/backends/postgres"];

/** The check of who made the schema stands before every migration of ours, and exists once. */
const SHARED = { "src/backends/postgres": ["src/fence/sql/1-schema.sql"] };

function statement(file) {
  const text = readFileSync(file, "utf8");
  const split = /^((?:--.*\n)+)\n([^]+;)\n$/.exec(text);
  if (split === null)
    throw new Error(`${file}: expected a comment header, a blank line and one statement ending in ";"`);
  const [, header, code] = split;
  const bare = code.replace(/\$function\$[^]*\$function\$/g, "").replace(/'[^']*'/g, "''");
  if (bare.indexOf(";") !== bare.length - 1) throw new Error(`${file}: expected one statement, found several`);
  const named = new Map([...header.matchAll(/^-- \$(\d+) (\w+)$/gm)].map((match) => [match[1], match[2]]));
  for (const [number, name] of named) {
    const used = bare.includes(`$${number}`) || code.includes(`tg_argv[${number - 1}]`) || bare.includes(name);
    if (!used) throw new Error(`${file}: $${number} ${name} is named in the header but not used`);
  }
  for (const [, number] of bare.matchAll(/\$(\d+)/g)) {
    if (!named.has(number)) throw new Error(`${file}: $${number} is used but not named in the header`);
  }
  return { header, code };
}

function constant(file) {
  return basename(file, ".sql").replace(/^\d+-/, "").replaceAll("-", "_").toUpperCase();
}

function moduleOf(folder) {
  const own = readdirSync(join(ROOT, folder, "sql")).filter((name) => name.endsWith(".sql"));
  const files = [...(SHARED[folder] ?? []), ...own.toSorted().map((name) => join(folder, "sql", name))];
  const parts = files.map((name) => {
    const { header, code } = statement(join(ROOT, name));
    const purpose = header
      .split("\n")
      .map((line) => line.replace(/^-- ?/, ""))
      .join("\n")
      .trim();
    const comment = purpose
      .split("\n")
      .map((line) => ` * ${line}`.trimEnd())
      .join("\n");
    return `/**\n${comment}\n */\nexport const ${constant(name)}: string = ${JSON.stringify(code.slice(0, -1))};\n`;
  });
  return [`// Generated from ../sql/*.sql by scripts/build-sql.mjs. Do not edit.\n`, ...parts].join("\n");
}

let stale = false;
for (const folder of FOLDERS) {
  const target = join(ROOT, folder, "generated", "sql.ts");
  const wanted = moduleOf(folder);
  if (existsSync(target) && readFileSync(target, "utf8") === wanted) continue;
  if (process.argv.includes("--check")) {
    stale = true;
    console.error(`${folder}/generated/sql.ts is not what ${folder}/sql/*.sql says: run node scripts/build-sql.mjs`);
    continue;
  }
  mkdirSync(dirname(target), { recursive: true });
  writeFileSync(target, wanted);
}
process.exitCode = stale ? 1 : 0;
