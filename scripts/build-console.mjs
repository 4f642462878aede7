// Turns src/console/ui into one generated module with the page, its one script and its one style, as they are served.
//
// The module is part of the repository, as that of Lua is: tests, bundles and editors need no step before. `--check` writes nothing
// and fails when it is not what its sources say.
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { rolldown } from "rolldown";

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const UI = join(ROOT, "src/console/ui");
const TARGET = join(ROOT, "src/console/generated/page.ts");

async function script() {
  const bundle = await rolldown({
    input: join(UI, "main.ts"),
    platform: "browser",
    logLevel: "silent",
    tsconfig: false,
  });
  try {
    const { output } = await bundle.generate({ format: "esm", minify: true });
    if (output.length !== 1) throw new Error(`expected one script, got ${output.length}`);
    return output[0].code;
  } finally {
    await bundle.close();
  }
}

/** Comments and indents only: what is left is read by people who debug. */
function smaller(text) {
  return text
    .replaceAll(/\/\*[^]*?\*\//g, "")
    .replaceAll(/\n\s+/g, "\n")
    .replaceAll(/\n{2,}/g, "\n")
    .trim();
}

const page = smaller(readFileSync(join(UI, "index.html"), "utf8"));
const style = smaller(readFileSync(join(UI, "style.css"), "utf8"));
const code = await script();
const tag = createHash("sha256").update(page).update(code).update(style).digest("base64url").slice(0, 22);
const constants = { PAGE: page, SCRIPT: code, STYLE: style, TAG: `"${tag}"` };
const lines = Object.entries(constants).map(
  ([name, text]) => `export const ${name}: string = ${JSON.stringify(text)};\n`,
);
const wanted = ["// Generated from ../ui by scripts/build-console.mjs. Do not edit.\n", ...lines].join("\n");

if (!existsSync(TARGET) || readFileSync(TARGET, "utf8") !== wanted) {
  if (process.argv.includes("--check")) {
    console.error("src/console/generated/page.ts is not what src/console/ui says: run node scripts/build-console.mjs");
    process.exitCode = 1;
  } else {
    mkdirSync(dirname(TARGET), { recursive: true });
    writeFileSync(TARGET, wanted);
  }
}
