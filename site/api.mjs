/**
 * Writes the API reference from the declarations of the built package, one page for each subpath, into docs/generated/api.
 * TypeDoc does not know TypeScript 7, so this package has a TypeScript of its own; it only reads dist/.
 */
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { join, relative } from "node:path";
import { Application, Comment, OptionDefaults, ReflectionKind } from "typedoc";
import { missingNames } from "./exported-names.mjs";
import { GUIDES } from "./navigation.mjs";

const ROOT = join(import.meta.dirname, "..");
const OUT = join(ROOT, "docs/generated/api");
const SOURCES = join(ROOT, "src");

/** Each subpath with its declarations. `holdfast/redis` is what a program imports, so that is what its page is called. */
function subpaths() {
  const { exports } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  return Object.entries(exports)
    .filter(([, target]) => typeof target === "object")
    .map(([path, { types }]) => ({ name: path.replace(/^\./, "holdfast"), file: join(ROOT, types) }));
}

/** A comment at the top of a file, above an empty line or what it imports: it is that of the file, not of a name. */
const HEAD = /^(?:#!.*\n)?\/\*\*([\s\S]*?)\*\/\n(?=\n|import |export (?:type )?[{*])/;

/** What a file of the sources is for, as its first lines say. */
function headOf(file) {
  const [, text] = HEAD.exec(readFileSync(file, "utf8")) ?? ["", ""];
  return text.replaceAll(/^\s*\*/gm, "");
}

const plain = (text) => text.replaceAll(/\s+/g, " ").trim();

/** Each subpath begins with what it is for, and where that is explained; and no name has the description of its file. */
function describeSubpaths(project, modules) {
  // TypeDoc takes the description of a file for that of names in it that have none.
  const sources = readdirSync(SOURCES, { recursive: true, encoding: "utf8" }).filter((path) => path.endsWith(".ts"));
  const heads = new Set(sources.map((path) => plain(headOf(join(SOURCES, path)))));
  for (const reflection of Object.values(project.reflections)) {
    const { comment } = reflection;
    if (comment !== undefined && heads.has(plain(Comment.combineDisplayParts(comment.summary))))
      delete reflection.comment;
  }
  for (const [module, { name, file }] of modules) {
    const guides = GUIDES[name].map(({ text, link }) => `[${text}](${link})`).join(", ");
    const source = join(SOURCES, relative(join(ROOT, "dist"), file).replace(/\.d\.ts$/, ".ts"));
    const purpose = plain(headOf(source).split(/\n\s*\n/)[0]);
    if (purpose === "") throw new Error(`${source} does not say in its first lines what it is for`);
    module.comment = new Comment([{ kind: "text", text: `${purpose} Guide: ${guides}.` }]);
  }
}

/** What is read first, first: the subpaths as package.json has them, and of `holdfast` what every program uses. */
function sortForReaders(project, modules) {
  const first = ["connect", "createLocks", "Locks", "Lease"];
  const rank = (reflection) => {
    const entry = modules.get(reflection);
    if (entry !== undefined) return entry.place;
    return first.includes(reflection.name) ? first.indexOf(reflection.name) : first.length;
  };
  const sort = (list) => list?.sort((a, b) => rank(a) - rank(b));
  const main = [...modules].find(([, { name }]) => name === "holdfast")?.[0];
  for (const one of [project, main]) {
    sort(one.children);
    for (const group of one.groups ?? []) sort(group.children);
  }
}

export async function writeApi() {
  const entries = subpaths();
  const app = await Application.bootstrapWithPlugins({
    plugin: ["typedoc-plugin-markdown"],
    entryPoints: entries.map(({ file }) => file),
    tsconfig: join(import.meta.dirname, "tsconfig.json"),
    out: OUT,
    readme: "none",
    name: "API reference",
    basePath: join(ROOT, "dist"),
    logLevel: "Error",
    disableSources: true,
    excludeInternal: true,
    excludeExternals: true,
    excludePrivate: true,
    // What a signature names and no subpath exports is not the reader's to import: no warning about it.
    validation: { notExported: false, invalidLink: false, notDocumented: false },
    blockTags: [...OptionDefaults.blockTags],
    sort: ["kind", "required-first", "alphabetical"],
    groupOrder: ["Functions", "Classes", "Interfaces", "Type Aliases", "Variables", "*"],
    outputFileStrategy: "modules",
    entryFileName: "index.md",
    hidePageHeader: true,
    hideBreadcrumbs: true,
    useCodeBlocks: true,
    expandObjects: true,
    parametersFormat: "table",
    interfacePropertiesFormat: "table",
    typeAliasPropertiesFormat: "table",
    indexFormat: "table",
    tableColumnSettings: { hideSources: true, hideInherited: true, hideOverrides: true, hideModifiers: true },
    formatWithPrettier: false,
  });
  const project = await app.convert();
  if (project === undefined) throw new Error("the declarations could not be read");
  const modules = new Map();
  for (const module of project.getChildrenByKind(ReflectionKind.Module)) {
    const place = entries.findIndex(
      ({ file }) =>
        file === join(ROOT, "dist", `${module.name}.d.ts`) || file === join(ROOT, "dist", module.name, "index.d.ts"),
    );
    if (place < 0) throw new Error(`no subpath has the declarations ${module.name}`);
    const entry = entries[place];
    modules.set(module, { ...entry, place });
    module.name = entry.name;
  }
  describeSubpaths(project, modules);
  sortForReaders(project, modules);
  rmSync(OUT, { recursive: true, force: true });
  await app.generateOutputs(project);
  if (app.logger.hasErrors()) throw new Error("the API reference could not be written");
  const missing = missingNames(OUT, entries);
  if (missing.length > 0) throw new Error(`the API reference lacks ${missing.join(", ")}`);
  return entries.map(({ name }) => name);
}
