/** The lines of SECURITY.md, as they stand there: what is documented is what is tested. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { RedisServer } from "../../src/lab/servers/redis.ts";
import { ROOT } from "../dist.ts";

export const ZONES = ["billing", "search"] as const;
export type Kind = "data" | "cluster" | "sentinel" | "plain" | "redisson" | "redlock" | "redis-semaphore";
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

/** Of a text of SECURITY.md: the words in backticks that give rights. */
export function moreRights(sentence: RegExp): string[] {
  const found = sentence.exec(text)?.[1];
  if (found === undefined) throw new Error(`SECURITY.md does not say ${sentence}`);
  return found.split(" ");
}

/** The commands that the block allows. */
export function rights(kind: Kind): string[] {
  return aclLine(kind, "billing").flatMap((word) => (word.startsWith("+") ? [word.slice(1)] : []));
}

/** Makes the zones' users at a server. `more`: what SECURITY.md says that they need besides. */
export async function makeUsers(server: RedisServer, kind: Kind, more: readonly string[] = []): Promise<void> {
  for (const zone of ZONES) await server.cli(...aclLine(kind, zone), ...more);
}

/** What was asked for at a server since its start: commands, with their subcommands. */
export async function usedAt(server: RedisServer): Promise<readonly string[]> {
  const stats = await server.cli("INFO", "commandstats");
  return [...stats.matchAll(/cmdstat_([\w|-]+):calls=[1-9]/gu)].map(([, command]) => command as string);
}

export function grants(role: string): string {
  return block("sql").replaceAll("billing", role);
}

export function lockGrants(role: string): string {
  return block("sql locks").replaceAll("billing", role);
}
