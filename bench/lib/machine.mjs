/** The machine, in words: figures mean nothing without it. */
import { execFileSync } from "node:child_process";
import { cpus, loadavg, release, totalmem, type } from "node:os";

export function machine() {
  const all = cpus();
  return {
    cpu: all[0]?.model.trim() ?? "unknown",
    cores: all.length,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    system: `${type()} ${release().replace(/-.*/, "")}`,
    node: process.version,
    redis: version("redis-server", ["--version"], /v=([\d.]+)/),
    java: version("java", ["-version"], /version "([^"]+)"/),
    load: loadavg().map((load) => Number(load.toFixed(2))),
  };
}

function version(program, args, pattern) {
  try {
    const text = execFileSync(program, args, { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
    return pattern.exec(text)?.[1];
  } catch {
    return undefined;
  }
}
