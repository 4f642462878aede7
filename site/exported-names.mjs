/** The API reference has a heading for every name that a subpath exports: what is missing from it, asked of the compiler and not of what wrote it. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import ts from "typescript";

const OPTIONS = {
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  target: ts.ScriptTarget.ES2022,
  skipLibCheck: true,
};

/** The name in a heading such as "`abstract` LockError", "connect()" or "MAX\_FENCE". */
const nameIn = (heading) => /^(?:`?abstract`? )?([\w$]+)/.exec(heading.replaceAll("\\", ""))?.[1];

function headingsOf(folder, subpath) {
  const page = [`${subpath}.md`, `${subpath}/index.md`].map((file) => join(folder, file)).find(existsSync);
  if (page === undefined) return [];
  return [...readFileSync(page, "utf8").matchAll(/^#+ (.*)$/gm)].map(([, heading]) => nameIn(heading));
}

/** `entries`: each subpath with the file of its declarations. */
export function missingNames(folder, entries) {
  const program = ts.createProgram(
    entries.map(({ file }) => file),
    OPTIONS,
  );
  const checker = program.getTypeChecker();
  return entries.flatMap(({ name, file }) => {
    const headings = new Set(headingsOf(folder, name));
    const exported = checker.getExportsOfModule(checker.getSymbolAtLocation(program.getSourceFile(file)));
    if (exported.length === 0) throw new Error(`${file} exports nothing`);
    return exported.filter((one) => !headings.has(one.name)).map((one) => `${name}: ${one.name}`);
  });
}
