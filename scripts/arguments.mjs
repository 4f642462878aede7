// The arguments of a campaign. `--help` prints the comment at the top of its script; a wrong argument does, too, with exit code 64.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

/**
 * @template {import("node:util").ParseArgsConfig} T
 * @param {string} script its `import.meta.url`
 * @param {T} config as of parseArgs()
 * @returns {ReturnType<typeof parseArgs<T>>}
 */
export function argumentsOf(script, config) {
  const usage =
    /^(?:\/\/.*\n)+/.exec(readFileSync(fileURLToPath(script), "utf8"))?.[0].replaceAll(/^\/\/ ?/gm, "") ?? "";
  let parsed;
  try {
    parsed = parseArgs({ ...config, options: { ...config.options, help: { type: "boolean", default: false } } });
  } catch (error) {
    console.error(`${error.message}\n\n${usage}`);
    process.exit(64);
  }
  if (parsed.values.help) {
    console.log(usage);
    process.exit(0);
  }
  return parsed;
}
