/** `start`: how long it takes until a program has Holdfast, and how large it is. Needs no server and no peers. */
import { rmSync } from "node:fs";
import { atMost, find, ratio } from "../lib/bars.mjs";
import { bundled, packed } from "../lib/sizes.mjs";
import { byTurns, importing, locksDirectory, program } from "../lib/starts.mjs";

/** Starts of each, for a round. */
const STARTS = 7;

export const start = {
  name: "start",
  title: "Start-up and size",
  async run(context) {
    const locks = locksDirectory();
    const starts = STARTS * context.rounds;
    const only = (entrants) => entrants.filter(context.wanted);
    try {
      const imports = byTurns(only(IMPORTS), starts, context);
      const runs = byTurns(only(programs(locks)), starts, context);
      const bundles = await bundled(["memory", "file", "redis", "quorum", "postgres", "etcd", "zookeeper"]);
      const packages = packed();
      return {
        parts: [
          { id: "import", title: "import() in a new process", columns: ["tookMs"], rows: imports },
          { id: "run", title: "a program, from its start to its end", columns: ["tookMs"], rows: runs },
          { id: "bundled", title: "bundled and minified", columns: ["minifiedKb", "gzipKb"], rows: bundles },
          { id: "package", title: "the package, compressed", columns: ["gzipKb", "files"], rows: packages },
        ],
        bars: barsOf(imports, runs, bundles, packages),
      };
    } finally {
      rmSync(locks, { recursive: true, force: true });
    }
  },
};

const own = true;
const IMPORTS = [
  { name: "node:fs", limit: true, measure: importing("node:fs") },
  { name: "holdfast", own, measure: importing("index.js") },
  { name: "holdfast and holdfast/redis", own, measure: importing("index.js", "backends/redis/index.js") },
  { name: "holdfast/fence/http", own, measure: importing("fence/http/index.js") },
];

/** What `run` cannot do without: a Node that starts, one process that ends the command if that Node is killed, and the command. */
const TWO = `const { spawn } = require("node:child_process");
  spawn("/bin/sh", ["-c", "exec sleep 9"], { stdio: "ignore", detached: true }).unref();
  spawn("/bin/sh", ["-c", "exec true"], { stdio: "inherit" }).on("exit", (code) => process.exit(code));`;

const programs = (locks) => [
  { name: "node -e 0", limit: true, measure: program(["-e", "0"]) },
  {
    name: "node -e 0 and fork",
    limit: true,
    measure: program(["-e", 'require("node:child_process").spawnSync("true")']),
  },
  { name: "node, a guard and a command", limit: true, measure: program(["-e", TWO]) },
  { name: "holdfast version", own, measure: program(["cli/main.js", "version"]) },
  { name: "holdfast run x -- true", own, measure: program(["cli/main.js", "run", "x", "--", "true"], locks) },
];

function barsOf(imports, runs, bundles, packages) {
  const ms = (rows, name) => find(rows, name)?.tookMs.p50;
  return [
    atMost("start-import", 'ms until `import "holdfast"` is there', ms(imports, "holdfast"), 12),
    atMost(
      "start-run",
      "`holdfast run x -- true` against `node -e 0` and fork",
      ratio(ms(runs, "holdfast run x -- true"), ms(runs, "node -e 0 and fork")),
      1.3,
    ),
    atMost("start-bundled", "kB of the core and one backend (memory)", find(bundles, "core and memory")?.gzipKb, 15),
    atMost("start-package", "kB of the package", find(packages, "the whole package")?.gzipKb, 350),
  ];
}
