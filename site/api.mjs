/**
 * Writes the API reference from the declarations of the built package, one page for each subpath, into docs/generated/api.
 * TypeDoc does not know TypeScript 7, so this package has a TypeScript of its own; it only reads dist/.
 */
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { Application, OptionDefaults, ReflectionKind } from "typedoc";
import { missingNames } from "./exported-names.mjs";

const ROOT = join(import.meta.dirname, "..");
const OUT = join(ROOT, "docs/generated/api");

/** Each subpath with its declarations. `holdfast/redis` is what a program imports, so that is what its page is called. */
function subpaths() {
  const { exports } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  return Object.entries(exports)
    .filter(([, target]) => typeof target === "object")
    .map(([path, { types }]) => ({ name: path.replace(/^\./, "holdfast"), file: join(ROOT, types) }));
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
  for (const module of project.getChildrenByKind(ReflectionKind.Module)) {
    const entry = entries.find(
      ({ file }) =>
        file === join(ROOT, "dist", `${module.name}.d.ts`) || file === join(ROOT, "dist", module.name, "index.d.ts"),
    );
    if (entry === undefined) throw new Error(`no subpath has the declarations ${module.name}`);
    module.name = entry.name;
  }
  rmSync(OUT, { recursive: true, force: true });
  await app.generateOutputs(project);
  if (app.logger.hasErrors()) throw new Error("the API reference could not be written");
  const missing = missingNames(OUT, entries);
  if (missing.length > 0) throw new Error(`the API reference lacks ${missing.join(", ")}`);
  return entries.map(({ name }) => name);
}
