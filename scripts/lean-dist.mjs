// Takes out of dist/ what is of no use to those who install the package: comments in JavaScript, and declarations that no subpath leads to.
//
// The code itself stays as the compiler wrote it, line by line, so that a stack trace can be read. Comments stay in the declarations
// that are left: editors show them.
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { parseSync } from "rolldown/experimental";

/** What bundlers and coverage tools read is no comment for people. */
const IS_READ = /[@#]__(?:PURE|NO_SIDE_EFFECTS)__|@vite-ignore|webpackIgnore|\bv8 ignore\b/;

/** The same program without its comments. */
export function withoutComments(path, text) {
  const { comments, errors } = parseSync(path, text);
  if (errors.length > 0) throw new Error(`${path} cannot be read: ${errors[0].message}`);
  let lean = "";
  let from = 0;
  for (const { start, end, value } of comments) {
    if (IS_READ.test(value) || text.startsWith("#!", start)) continue;
    const before = text.slice(from, start);
    const isAlone = /(?:^|\n)[ \t]*$/.test(lean + before) && /^[ \t]*(?:\r?\n|$)/.test(text.slice(end, end + 200));
    if (isAlone) {
      lean += before.replace(/[ \t]*$/, "");
      from = text.indexOf("\n", end) + 1 || text.length;
    } else {
      // Behind code: a comment over several lines ends a line, and one within a line parts two words.
      const isLast = /^[ \t]*(?:\r?\n|$)/.test(text.slice(end, end + 200));
      lean += isLast ? before.replace(/[ \t]*$/, "") : before + (value.includes("\n") ? "\n" : " ");
      from = end;
    }
  }
  return lean + text.slice(from);
}

/** docs/lab.md shows how to use these, in the repository. */
const SHOWN = ["dist/lab/proxy.d.ts", "dist/lab/servers/redis.d.ts"];

/** Declarations that the subpaths of package.json lead to, through whatever they import. */
export function reachable(root, exports) {
  const open = [...Object.values(exports).flatMap((target) => target.types ?? []), ...SHOWN];
  const found = new Set();
  while (open.length > 0) {
    const file = normalize(open.pop());
    if (found.has(file) || !existsSync(join(root, file))) continue;
    found.add(file);
    const text = readFileSync(join(root, file), "utf8");
    for (const [, target] of text.matchAll(/(?:from|import|import\()\s*"(\.[^"]+)\.[jt]s"/g)) {
      open.push(join(dirname(file), `${target}.d.ts`));
    }
  }
  return found;
}

export function leanDist(root) {
  const { exports } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const kept = reachable(root, exports);
  for (const name of readdirSync(join(root, "dist"), { recursive: true, encoding: "utf8" })) {
    const path = join(root, "dist", name);
    if (name.endsWith(".d.ts")) {
      if (!kept.has(join("dist", name))) rmSync(path);
    } else if (name.endsWith(".js")) {
      const text = readFileSync(path, "utf8");
      const lean = withoutComments(path, text);
      if (lean !== text) writeFileSync(path, lean);
    }
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) leanDist(fileURLToPath(new URL("..", import.meta.url)));
