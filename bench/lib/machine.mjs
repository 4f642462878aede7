/** The machine, in words: figures mean nothing without it. */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
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
    java: version("java", ["--version"], /^\w+ ([\d.]+)/),
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

/** What a process and its threads have used, from the kernel, in steps of 10 ms. */
export function cpuUsOf(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
    .replace(/^.*\) /s, "")
    .split(" ");
  return (Number(fields[11]) + Number(fields[12])) * 10_000;
}
