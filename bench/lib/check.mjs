/**
 * The guard against getting slower: the last release and the working tree take turns in one run, and the ratio of their CPU per
 * cycle is compared with the one that was committed (bench/ratios.json). Only what grew by more than MAY_GROW is a finding.
 */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const ROOT = join(import.meta.dirname, "..", "..");
const FILE = join(ROOT, "bench", "ratios.json");
const CACHE = join(ROOT, "node_modules", ".cache", "holdfast-release");

/** By this factor, what a run on a calm machine does not show by chance. */
export const MAY_GROW = 1.15;
/** Suites that both builds can run, and that measure CPU per cycle, or per second where leases are kept. */
export const CHECKED = ["memory", "file", "uncontended", "hot-one-process", "held"];
export const NEW = "holdfast";
export const OLD = "holdfast before";

const FIGURES = { clientCpuUs: "client CPU per cycle", storeCpuUs: "store CPU per cycle", cpuPercent: "client CPU" };

export function readRatios() {
  return JSON.parse(readFileSync(FILE, "utf8"));
}

export function writeRatios(release, ratios) {
  const rounded = Object.fromEntries(Object.entries(ratios).map(([id, value]) => [id, Number(value.toFixed(3))]));
  writeFileSync(FILE, `${JSON.stringify({ release, ratios: rounded }, null, 2)}\n`);
}

/** Builds the commit of that release below node_modules/.cache, once, and returns its dist/. */
export function buildRelease({ version, commit }, say) {
  const folder = join(CACHE, commit);
  const dist = join(folder, "dist");
  if (existsSync(join(dist, "index.js"))) return dist;
  say(`building ${version} (${commit}) to compare with (once) …`);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const archive = execFileSync("git", ["archive", commit], { cwd: ROOT, maxBuffer: 2 ** 30 });
  execFileSync("tar", ["-x", "-C", folder], { input: archive });
  symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
  try {
    const tsc = join(ROOT, "node_modules", "typescript", "bin", "tsc");
    execFileSync(process.execPath, [tsc, "-p", "tsconfig.build.json"], { cwd: folder, stdio: "pipe" });
    const bundler = join(folder, "scripts", "build-dist.mjs");
    if (existsSync(bundler)) execFileSync(process.execPath, [bundler], { cwd: folder, stdio: "pipe" });
  } catch (error) {
    // Types of a library that has moved on since are no reason: what counts is whether it was written.
    if (!existsSync(join(dist, "index.js"))) throw new Error(`${version} could not be built:\n${error.stdout}`);
  }
  return dist;
}

/** Of each part and figure that both have: the new over the old. */
export function ratiosOf(suites) {
  const ratios = {};
  for (const [suite, { parts }] of Object.entries(suites))
    for (const { id, rows } of parts)
      for (const figure of Object.keys(FIGURES)) {
        const [now, before] = [NEW, OLD].map((name) => rows.find((row) => row.name === name && row.ran)?.[figure]);
        if (now > 0 && before > 0) ratios[`${suite}/${id}/${figure}`] = now / before;
      }
  return ratios;
}

/** What grew by more than it may, and what is not known any more. */
export function judge(ratios, committed) {
  return Object.entries(committed).flatMap(([id, was]) => {
    const now = ratios[id];
    if (now === undefined) return [{ id, was, now, why: "was not measured" }];
    return now > was * MAY_GROW ? [{ id, was, now, why: `is ${(now / was).toFixed(2)} of what was committed` }] : [];
  });
}

export function textOf({ id, was, now, why }) {
  const [suite, part, figure] = id.split("/");
  const measured = now === undefined ? "" : ` (${now.toFixed(3)} of the last release, committed ${was.toFixed(3)})`;
  return `${suite}, ${part}: ${FIGURES[figure] ?? figure} ${why}${measured}`;
}
