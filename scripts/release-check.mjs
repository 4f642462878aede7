// Refuses a release that is not ready: placeholders, versions that differ, a change log without a date, pages that are still to come.
//
//   npm run release:check                  everything that can be seen in the files, and that all of it is committed
//   npm run release:check -- --tag v1.2.3  the same, and that the tag is the version's
//
// Prints what is missing, a line each, and exits with 1; says nothing, with 0, when a release may go out.
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { argumentsOf } from "./arguments.mjs";

/** Where it will live is not known yet: these addresses lead nowhere until they are replaced. */
const PLACEHOLDER = /github\.com\/holdfast\/holdfast|holdfast\.github\.io/;
const UNFINISHED = /\b(?:TODO|TBD|FIXME|TKTK|lorem ipsum)\b/i;
const MADE = /(?:^|\/)(?:node_modules|dist|cache|generated)\//;

const read = (root, file) => (existsSync(join(root, file)) ? readFileSync(join(root, file), "utf8") : "");

function filesUnder(root, folder, ending) {
  if (!existsSync(join(root, folder))) return [];
  return readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .map((name) => `${folder}/${name.replaceAll("\\", "/")}`)
    .filter((file) => ending.test(file) && !MADE.test(file));
}

/** Each line of these files that matches, with its place. */
function linesWith(root, files, pattern) {
  return files.flatMap((file) =>
    read(root, file)
      .split("\n")
      .map((line, at) => [line, `${file}:${at + 1}`])
      .filter(([line]) => pattern.test(line)),
  );
}

function placeholders(root) {
  const files = [
    "package.json",
    "README.md",
    "SECURITY.md",
    "SUPPORT.md",
    "CONTRIBUTING.md",
    ...filesUnder(root, "src", /\.ts$/),
    ...filesUnder(root, "site", /\.(?:mjs|json|ts)$/),
    ...filesUnder(root, "docs", /\.md$/),
  ];
  return linesWith(root, files, PLACEHOLDER).map(
    ([line, place]) => `${place} has the placeholder of an address: ${line.trim()}`,
  );
}

function versions(root, version, tag) {
  const lock = JSON.parse(read(root, "package-lock.json") || "{}");
  const found = [lock.version, lock.packages?.[""]?.version];
  return [
    ...(/^\d+\.\d+\.\d+(?:-[\w.]+)?$/.test(version ?? "") ? [] : [`package.json has no version: ${version}`]),
    ...(found.every((one) => one === version)
      ? []
      : [`package-lock.json says ${found.join(" and ")}, package.json says ${version}: run npm install`]),
    ...(tag === undefined || tag === `v${version}` ? [] : [`the tag is ${tag}, the version ${version}`]),
  ];
}

function changes(root, version) {
  const headings = [...read(root, "CHANGELOG.md").matchAll(/^## (\S+?),?(?: (.*))?$/gm)];
  const at = headings.findIndex(([, number]) => number === version);
  if (at === -1) return [`CHANGELOG.md has no section for ${version}`];
  if (at > 0) return [`CHANGELOG.md has ${headings[0][1]} above ${version}`];
  const [, , date] = headings[0];
  return /^\(\d{4}-\d{2}-\d{2}\)$/.test(date ?? "")
    ? []
    : [`CHANGELOG.md says "${headings[0][0]}": write the day, as in "## ${version} (2030-01-31)"`];
}

async function pages(root) {
  const navigation = join(root, "site/navigation.mjs");
  const { TO_COME } = existsSync(navigation) ? await import(pathToFileURL(navigation).href) : { TO_COME: [] };
  const files = ["README.md", "SECURITY.md", "SUPPORT.md", "CONTRIBUTING.md", ...filesUnder(root, "docs", /\.md$/)];
  return [
    ...TO_COME.map((page) => `site/navigation.mjs names docs/${page} as still to come`),
    ...linesWith(root, files, UNFINISHED).map(([line, place]) => `${place} is not finished: ${line.trim()}`),
    ...["SECURITY.md", "SUPPORT.md", "LICENSE"]
      .filter((file) => !existsSync(join(root, file)))
      .map((file) => `${file} is missing`),
  ];
}

/** What keeps these files from being released. */
export async function problemsOf(root, tag) {
  const { version } = JSON.parse(read(root, "package.json"));
  return [...versions(root, version, tag), ...changes(root, version), ...placeholders(root), ...(await pages(root))];
}

/** What is in the folder, but not in a commit. */
export function uncommitted(root) {
  const lines = execFileSync("git", ["status", "--porcelain"], { cwd: root, encoding: "utf8" }).split("\n");
  return lines.filter((line) => line !== "").map((line) => `not committed: ${line.slice(3)}`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values } = argumentsOf(import.meta.url, {
    options: {
      tag: { type: "string" },
      root: { type: "string", default: fileURLToPath(new URL("..", import.meta.url)) },
    },
  });
  const problems = [...(await problemsOf(values.root, values.tag)), ...uncommitted(values.root)];
  for (const problem of problems) console.error(problem);
  if (problems.length > 0) process.exitCode = 1;
}
