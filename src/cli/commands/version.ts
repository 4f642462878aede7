/** `holdfast version`: what is installed. */
import { readFileSync } from "node:fs";

import type { Command } from "../command.ts";
import { EXIT } from "../exit-codes.ts";

/** Of the package, as its package.json says. */
export function version(): string {
  const manifest = JSON.parse(readFileSync(new URL("../../../package.json", import.meta.url), "utf8")) as {
    version: string;
  };
  return manifest.version;
}

export const versionCommand: Command = {
  spec: {
    name: "version",
    summary: "Print the version",
    usage: ["version [--json]", "--version"],
    flags: {},
    examples: [["holdfast version", "the version and the Node it runs on"]],
    exits: ["ok", "usage"],
  },
  async run(io, flags) {
    const facts = { version: version(), node: process.version, platform: process.platform, arch: process.arch };
    if (flags.has("json")) io.json(facts);
    else io.print(`holdfast ${facts.version} (node ${facts.node}, ${facts.platform} ${facts.arch})`);
    return EXIT.ok;
  },
};
