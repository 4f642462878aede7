/**
 * Turns the lua/*.lua of its folders into one generated/scripts.ts each, with their SHA1, and refuses a script whose header lies.
 *
 *   node scripts/build-lua.mjs           writes generated/scripts.ts
 *   node scripts/build-lua.mjs --check   fails when what is there differs from what it would write
 *
 * A header names the purpose, KEYS, ARGV and what is returned. Files that start with "_" are parts for `--- @include`: each is in the
 * module once, and the scripts are put together from them. Where a folder has a wire.ts, the scripts use its names: see lua-names.mjs.
 */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { rolldown } from "rolldown";
import { checkNeeds, namesOf } from "./lua-names.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const FOLDERS = [
  "src/backends/redis",
  "src/backends/redis-plain",
  "src/backends/redis/layouts",
  "src/backends/redisson",
  "src/fence",
  "src/adapters/bullmq",
  "src/drop-ins/rolling",
];

/** Splits a file into the comment block at its top and the code below it. */
export function splitHeader(text) {
  const lines = text.split("\n");
  const end = lines.findIndex((line) => !line.startsWith("--"));
  return { header: lines.slice(0, end).join("\n"), code: lines.slice(end).join("\n") };
}

/** What is wrong with a script's header, as sentences; none when it tells the truth. */
export function headerFaults(name, header, code) {
  const faults = [];
  if (!/^-- [A-Z]/.test(header)) faults.push(`${name}: the header does not start with what the script does`);
  if (!/^-- Returns /m.test(header)) faults.push(`${name}: the header does not say what is returned`);
  for (const table of ["KEYS", "ARGV"]) {
    const named = indexes(header.matchAll(new RegExp(`^-- ${table}\\[([^\\]]+)\\] \\S`, "gm")));
    const used = indexes(code.matchAll(new RegExp(`\\b${table}\\[([^\\]]+)\\]`, "g")));
    if (new RegExp(`\\(${table}\\)`).test(code)) used.add("n");
    for (const index of used) {
      if (!named.has(index)) faults.push(`${name}: ${table}[${index}] is used but not named in the header`);
    }
    for (const index of named) {
      if (!used.has(index)) faults.push(`${name}: ${table}[${index}] is named in the header but not used`);
    }
  }
  return faults;
}

/** Literal indexes as they are; every computed one ("i + 2", "1..", "n") counts as "n". */
function indexes(matches) {
  return new Set([...matches].map(([, index]) => (/^\d+$/.test(index) ? index : "n")));
}

/** The code as Redis gets it: with its names put in, and without comments, blank lines and indents. */
function compact(code, name, wire) {
  checkNeeds(name, code, wire);
  const lines = code.split("\n").map((line) => line.replace(/^\s+/, ""));
  const bare = lines.filter((line) => line !== "" && !line.startsWith("--")).join("\n");
  return namesOf(wire)(bare);
}

/** What the folder's wire.ts exports; without one, no names at all. */
async function wireOf(folder) {
  const input = join(folder, "wire.ts");
  if (!existsSync(input)) return {};
  const bundle = await rolldown({ input, platform: "node", logLevel: "silent" });
  const { output } = await bundle.generate({ format: "esm" });
  await bundle.close();
  return import(`data:text/javascript,${encodeURIComponent(output[0].code)}`);
}

/**
 * @param {string} folder with lua/, and perhaps a wire.ts
 * @returns the module that should be in its generated/, and what the scripts in it are. Throws when a header lies or a name is unknown.
 */
export async function moduleOf(folder) {
  const wire = await wireOf(folder);
  const sources = join(folder, "lua");
  const read = (name) => readFileSync(join(sources, `${name}.lua`), "utf8");
  const names = readdirSync(sources).map((file) => file.replace(/\.lua$/, ""));
  const parts = new Map();
  const part = (name) => {
    if (!parts.has(name)) parts.set(name, compact(splitHeader(read(name)).code, name, wire));
    return parts.get(name);
  };
  const faults = [];
  const scripts = [];
  for (const name of names.filter((each) => !each.startsWith("_")).toSorted()) {
    const { header, code } = splitHeader(read(name));
    faults.push(...headerFaults(name, header, code));
    // Its own text and the names of parts, by turns.
    const pieces = code
      .split(/^--- @include (\S+)$/m)
      .map((piece, i) => (i % 2 === 0 ? { text: compact(piece, name, wire) } : { part: piece, text: part(piece) }))
      .filter(({ text }) => text !== "");
    const source = pieces.map(({ text }) => text).join("\n");
    scripts.push({ name, sha: createHash("sha1").update(source).digest("hex"), source, pieces });
  }
  if (faults.length > 0) throw new Error(faults.join("\n"));
  return { scripts, text: moduleText(relative(root, folder), parts, scripts) };
}

const exported = (script) => script.replace(/-(\w)/g, (_, letter) => letter.toUpperCase());
const constant = (part) => part.replace(/^_/, "").toUpperCase();
const literal = (text) => text.replaceAll("\\", "\\\\").replaceAll("`", "\\`").replaceAll("${", "\\${");

function moduleText(folder, parts, scripts) {
  return [
    `// Generated by scripts/build-lua.mjs from ${folder}/lua. Change what is there, and run \`npm run build:lua\`.`,
    "",
    "/** A Lua script as Redis gets it. */",
    "export interface Script {",
    "  readonly name: string;",
    "  readonly sha: string;",
    "  readonly source: string;",
    "}",
    ...[...parts].map(([name, text]) => `\nconst ${constant(name)} = \`${literal(text)}\`;`),
    ...scripts.map(({ name, sha, pieces }) => {
      const source = pieces
        .map(({ part, text }) => (part === undefined ? literal(text) : `\${${constant(part)}}`))
        .join("\n");
      return `\nexport const ${exported(name)}: Script = {\n  name: "${name}",\n  sha: "${sha}",\n  source: \`${source}\`,\n};`;
    }),
    "",
  ].join("\n");
}

async function main() {
  const check = process.argv.includes("--check");
  const stale = [];
  for (const folder of FOLDERS) {
    const path = join(root, folder, "generated", "scripts.ts");
    const { text } = await moduleOf(join(root, folder));
    if (existsSync(path) && readFileSync(path, "utf8") === text) continue;
    stale.push(relative(root, path));
    if (check) continue;
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
  }
  if (check && stale.length > 0) {
    console.error(`Out of date: ${stale.join(", ")}. Run \`npm run build:lua\`.`);
    process.exitCode = 1;
  } else {
    console.log(stale.length === 0 ? "Lua modules are up to date." : `Wrote ${stale.join(", ")}.`);
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main();
