// The copy in JavaScript, for lean runs: sources and tests as Node can run them, with lean-vitest.mjs in the place of Vitest.
import { cpSync, mkdirSync, readFileSync, readdirSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { transformSync } from "rolldown/utils";

const here = (name) => fileURLToPath(new URL(name, import.meta.url));

/** @returns JavaScript of a TypeScript file whose imports are JavaScript too */
export function toJavaScript(file, text) {
  const { code } = transformSync(file, text, { lang: "ts", target: "es2022" });
  return code.replace(/(["'])(\.\.?\/[^"'\n]+)\.ts\1/g, "$1$2.js$1");
}

/** Fills `lean` with all of `dir`. Whatever is neither source nor test is the same as there. */
export function buildLean(dir, lean) {
  mkdirSync(lean);
  for (const entry of readdirSync(dir)) {
    if (join(dir, entry) !== lean && entry !== "src" && entry !== "test")
      symlinkSync(join(dir, entry), join(lean, entry));
  }
  for (const top of ["src", "test"]) {
    for (const path of readdirSync(join(dir, top), { recursive: true, encoding: "utf8" })) {
      const [from, to] = [join(dir, top, path), join(lean, top, path)];
      if (statSync(from).isDirectory()) continue;
      mkdirSync(dirname(to), { recursive: true });
      if (!path.endsWith(".ts")) cpSync(from, to);
      else writeFileSync(to.replace(/\.ts$/, ".js"), forLean(toJavaScript(path, readFileSync(from, "utf8"))));
    }
  }
}

function forLean(code) {
  return code
    .replace(/(from\s*["'])vitest(["'])/g, `$1${here("./lean-vitest.mjs")}$2`)
    .replace("@oxc-project/runtime/helpers/usingCtx", here("./lean-using.mjs"));
}
