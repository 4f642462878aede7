// etcd in newer series than Debian's, built from its Go modules, once, below node_modules/.cache.
import { execFile } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";

export const VERSIONS = ["3.5.35", "3.6.16"];

const CACHE = join(import.meta.dirname, "../node_modules/.cache/holdfast-judges");
/** What has its `main` in a module that cannot be installed as it is: each is one call. */
const PROGRAMS = {
  etcd: ["go.etcd.io/etcd/server/v3", "etcdmain", "etcdmain.Main(os.Args)"],
  etcdctl: ["go.etcd.io/etcd/etcdctl/v3", "ctlv3", "ctlv3.MustStart()"],
};

/** The directory with the programs of that version; or `{ refusal }`, where Go or its archive is missing. */
export async function newerEtcd(version, say) {
  const folder = join(CACHE, `etcd-${version}`);
  const bin = join(folder, "bin");
  if (Object.keys(PROGRAMS).every((name) => existsSync(join(bin, name)))) return { bin };
  say(`building etcd ${version} from its Go modules (once, a few minutes) …`);
  mkdirSync(folder, { recursive: true });
  for (const [name, [module, part, call]] of Object.entries(PROGRAMS)) {
    mkdirSync(join(folder, name), { recursive: true });
    const imports = [...(call.includes("os.") ? ['"os"'] : []), `"${module}/${part}"`].join("\n\t");
    writeFileSync(
      join(folder, name, "main.go"),
      `package main\n\nimport (\n\t${imports}\n)\n\nfunc main() { ${call} }\n`,
    );
  }
  const requires = Object.values(PROGRAMS).map(([module]) => `require ${module} v${version}\n`);
  writeFileSync(join(folder, "go.mod"), `module newer\n\ngo 1.24\n\n${requires.join("")}`);
  try {
    const go = (...args) => promisify(execFile)("go", args, { cwd: folder, maxBuffer: 2 ** 26 });
    await go("mod", "tidy");
    await go("build", "-o", `${bin}/`, "./...");
    return { bin };
  } catch (error) {
    return { refusal: `etcd ${version} could not be built: ${lastLine(error.stderr ?? error.message)}` };
  }
}

/** Programs are looked for on PATH: the newer ones come first. */
export async function withPath(bin, work) {
  const before = process.env.PATH;
  if (bin !== undefined) process.env.PATH = `${bin}${delimiter}${before}`;
  try {
    return await work();
  } finally {
    process.env.PATH = before;
  }
}

function lastLine(text) {
  return text.trim().split("\n").at(-1);
}
