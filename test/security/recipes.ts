/** The lines of SECURITY.md, as they stand there: what is documented is what is tested. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { RedisServer } from "../../src/lab/servers/redis.ts";
import { ROOT } from "../dist.ts";

export const ZONES = ["billing", "search"] as const;
export type Kind = "data" | "cluster" | "sentinel";
export type Zone = (typeof ZONES)[number];

const text = readFileSync(join(ROOT, "SECURITY.md"), "utf8");

/** The text of the fenced block with this heading. */
function block(heading: string): string {
  const found = text.split(`\`\`\`${heading}\n`)[1]?.split("\n```")[0];
  if (found === undefined) throw new Error(`SECURITY.md has no block ${heading}`);
  return found;
}

export function passwordOf(zone: Zone): string {
  return `pw-of-${zone}`;
}

/** The arguments of the one line of the block, for this zone. */
function aclLine(kind: Kind, zone: Zone): string[] {
  const line = block(`redis-acl ${kind}`).replaceAll("billing", zone).replaceAll("<password>", passwordOf(zone));
  return line.split(" ");
}

/** The commands that the block allows. */
export function rights(kind: Kind): string[] {
  return aclLine(kind, "billing").flatMap((word) => (word.startsWith("+") ? [word.slice(1)] : []));
}

/** Makes the zones' users at a server. */
export async function makeUsers(server: RedisServer, kind: Kind): Promise<void> {
  for (const zone of ZONES) await server.cli(...aclLine(kind, zone));
}

export function grants(role: string): string {
  return block("sql").replaceAll("billing", role);
}

export function lockGrants(role: string): string {
  return block("sql locks").replaceAll("billing", role);
}
