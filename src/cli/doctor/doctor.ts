/** `holdfast doctor`: says what this store does and does not promise, from what it finds there. */
import { backendOf, type BackendName } from "../../backends/all.ts";
import { type Command } from "../command.ts";
import { UsageError } from "../usage-error.ts";
import { EXIT } from "../exit-codes.ts";
import type { Io, Style } from "../io.ts";
import { urlOf } from "../open-store.ts";
import { printable } from "../../contract/foreign.ts";
import type { Examine, Finding, Level, Report } from "./report.ts";

/** Who examines which backend; null where there is nothing to examine. */
export const EXAMINERS: Readonly<Record<BackendName, (() => Promise<Examine>) | null>> = {
  memory: null,
  file: async () => (await import("./file.ts")).examineFile,
  redis: async () => (await import("./redis.ts")).examineRedis,
  "redis-plain": async () => (await import("./redis-plain.ts")).examineRedisPlain,
  redisson: async () => (await import("./redisson.ts")).examineRedisson,
  quorum: async () => (await import("./quorum.ts")).examineQuorum,
  zookeeper: async () => (await import("./zookeeper.ts")).examineZooKeeper,
  postgres: async () => (await import("./postgres.ts")).examinePostgres,
  shedlock: async () => (await import("./shedlock.ts")).examineShedLock,
  etcd: async () => (await import("./etcd.ts")).examineEtcd,
};

const MARKS: Readonly<Record<Level, readonly [mark: string, style: Style]>> = {
  good: ["✓", "green"],
  weak: ["!", "yellow"],
  broken: ["✗", "red"],
  unknown: ["?", "dim"],
};

export const doctorCommand: Command = {
  spec: {
    name: "doctor",
    summary: "Say what this store does and does not promise",
    usage: ["doctor [--url URL] [--self-test] [--foreign] [--strict] [--json]"],
    about: [
      "Looks at the store itself (file system, version, persistence, eviction, replicas, clocks) and says what that means for locks. Exits with 1 when something there breaks a promise.",
    ],
    flags: {
      "self-test": { help: "also try it out: real processes, really killed (file: only; takes seconds)" },
      init: {
        help: "redlock:, or failover=quarantine: confirm that a fresh server lost no lease, and end its quarantine",
      },
      foreign: { help: "redis: only: find lock keys of other libraries, and say which layout shares them" },
      strict: { help: "exit with 1 for weaknesses too" },
    },
    examples: [
      ["holdfast doctor", "the embedded store of this machine"],
      ["holdfast doctor --self-test", "kill processes at bad moments, and count holders"],
      ["holdfast doctor --url redis://cache:6379 --json", "in a deploy check"],
    ],
    exits: ["ok", ["no", "something there breaks a promise (with --strict: or weakens it)"], "usage", "backend"],
  },
  async run(io, flags) {
    const url = urlOf(io, flags);
    const backend = backendOf(url);
    const load = backend === undefined ? null : EXAMINERS[backend];
    if (load === null) throw new UsageError(`doctor knows no stores of this kind: ${io.mask(url)}`, "doctor");
    if (flags.has("init") && !(await hasQuarantine(backend, url))) {
      throw new UsageError("--init ends a quarantine: there is none without redlock: or failover=quarantine", "doctor");
    }
    const isForeign = flags.has("foreign");
    if (isForeign && backend !== "redis" && backend !== "redis-plain" && backend !== "redisson")
      throw new UsageError("--foreign looks into one Redis: use a redis: URL", "doctor");
    const examine = isForeign ? (await import("./foreign.ts")).examineForeign : await load();
    const say = (line: string): void => {
      if (!flags.has("quiet") && !flags.has("json")) io.note(line);
    };
    const report = await examine({ url, selfTest: flags.has("self-test"), init: flags.has("init"), say });
    const verdict = verdictOf(report.findings, flags.has("strict"));
    if (flags.has("json")) io.json({ url: io.mask(url), verdict, ...report });
    else if (!flags.has("quiet")) print(io, url, report, verdict);
    return verdict === "broken" ? EXIT.no : EXIT.ok;
  },
};

async function hasQuarantine(backend: BackendName | undefined, url: string): Promise<boolean> {
  if (backend === "postgres") {
    const { parseUrl } = await import("../../backends/postgres/url.ts");
    return parseUrl(url).options.failover === "quarantine";
  }
  if (backend !== "redis") return backend === "quorum";
  const { parseUrl } = await import("../../backends/redis/url.ts");
  return parseUrl(url).options.failover === "quarantine";
}

function verdictOf(findings: readonly Finding[], strict: boolean): "good" | "weak" | "broken" {
  const levels = new Set(findings.map(({ level }) => level));
  if (levels.has("broken")) return "broken";
  if (!levels.has("weak") && !levels.has("unknown")) return "good";
  return strict ? "broken" : "weak";
}

function print(io: Io, url: string, { backend, facts, findings, promises, limits }: Report, verdict: string): void {
  const heading = (text: string): string => io.style("stdout", "bold", text);
  io.print(heading(`${backend} · ${printable(io.mask(url))}`));
  for (const [name, value] of Object.entries(facts)) {
    io.print(`  ${io.style("stdout", "dim", name.padEnd(16))} ${printable(String(value))}`);
  }
  io.print(heading("Checks"));
  for (const { level, text } of findings) {
    const [mark, style] = MARKS[level];
    io.print(`  ${io.style("stdout", style, mark)} ${printable(text)}`);
  }
  io.print(heading("It promises"));
  for (const line of promises) io.print(`  · ${line}`);
  io.print(heading("It does not promise"));
  for (const line of limits) io.print(`  · ${line}`);
  const [, style] = MARKS[verdict as Level];
  const words = {
    good: "All checks are good.",
    weak: "It works; see the weaknesses above.",
    broken: "A promise is broken here; see above.",
  };
  io.print(io.style("stdout", style, words[verdict as keyof typeof words]));
}
