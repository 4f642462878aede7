// Walks through the library as data does: which functions one call enters, in which files, in which order.
//
//   node scripts/walk.mjs                         a free run() on every store: up to the work, and after it
//   node scripts/walk.mjs redis file              only these: memory, file, redis, quorum, zookeeper
//   node scripts/walk.mjs memory --list           every entry, with its caller
//   node scripts/walk.mjs --dist ../before/dist   another build
//   … --json                                      one JSON line for each phase
//
// Each function of a copy of build/ says when it is entered. A file switch is two entries in a row in different files. A turn is an entry
// without a caller in the library: control came back through the event loop. All was done twice before it is
// counted, with the same lock, so that nothing is loaded, connected or made for the first time on the way.
import {
  cpSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { parseAst } from "rolldown/parseAst";
import { argumentsOf } from "./arguments.mjs";
import "./ensure-built.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const { values, positionals } = argumentsOf(import.meta.url, {
  allowPositionals: true,
  options: {
    dist: { type: "string", default: join(root, "build") },
    list: { type: "boolean", default: false },
    json: { type: "boolean", default: false },
  },
});

const scratch = realpathSync(mkdtempSync(join(tmpdir(), "holdfast-walk-")));
const dist = join(scratch, "build");
cpSync(resolve(values.dist), dist, { recursive: true });
symlinkSync(join(root, "node_modules"), join(scratch, "node_modules"));
writeFileSync(join(scratch, "package.json"), '{ "type": "module" }');

/** Entries as `file` and `name`, with the caller. */
let entries = [];
Error.stackTraceLimit = 12;
globalThis.holdfastWalk = (file, name) => {
  const holder = {};
  Error.captureStackTrace(holder, globalThis.holdfastWalk);
  // The first frame is the function itself; behind an "async" frame nothing is on the stack any more.
  const [, ...callers] = holder.stack.split("\n").slice(1);
  const sync = callers.slice(0, callers.findIndex((frame) => /^ +at async /.test(frame)) >>> 0);
  const caller = sync.find((frame) => frame.includes(dist));
  entries.push({ file, name, caller: caller === undefined ? undefined : shortFrame(caller) });
};

function shortFrame(frame) {
  const [, name = "", path = ""] = /^ +at (?:(.*?) \()?(?:file:\/\/)?(.*?):\d+:\d+\)?$/.exec(frame) ?? [];
  return `${path.replace(`${dist}/`, "").replace(/\.js$/, "")} ${name}`;
}

for (const path of readdirSync(dist, { recursive: true })) {
  if (!path.endsWith(".js") || /generated|^(?:lab|cli|testing)\//.test(path)) continue;
  const file = join(dist, path);
  writeFileSync(file, instrumented(readFileSync(file, "utf8"), path.replace(/\.js$/, "")));
}

/** The source, in which every function says its name when it is entered. */
function instrumented(source, file) {
  const inserts = [];
  const enter = (name) => `holdfastWalk(${JSON.stringify(file)}, ${JSON.stringify(name)})`;
  const visit = (node, name) => {
    if (node === null || typeof node !== "object") return;
    if (Array.isArray(node)) {
      for (const one of node) visit(one, name);
      return;
    }
    const own = nameOf(node) ?? name;
    if (/^(?:FunctionDeclaration|FunctionExpression|ArrowFunctionExpression)$/.test(node.type) && node.body) {
      const { body } = node;
      if (body.type === "BlockStatement") inserts.push([body.start + 1, `${enter(own)};`]);
      else inserts.push([body.start, `(${enter(own)},(`], [body.end, "))"]);
    }
    for (const key in node) if (key !== "type") visit(node[key], /^Function|^Arrow/.test(node.type) ? `${own}>λ` : own);
  };
  visit(parseAst(source), "");
  let text = source;
  // From the end, so that places before stay as they are; of two at one place the inner one comes first.
  for (const [at, insert] of inserts.toSorted(([a], [b]) => b - a)) text = text.slice(0, at) + insert + text.slice(at);
  return text;
}

function nameOf({ type, id, key, left }) {
  if (type === "FunctionDeclaration" || type === "ClassDeclaration" || type === "VariableDeclarator") return id?.name;
  if (type === "MethodDefinition" || type === "PropertyDefinition" || type === "Property")
    return key?.type === "PrivateIdentifier" ? `#${key.name}` : key?.name;
  return type === "AssignmentExpression" ? left?.property?.name : undefined;
}

const load = (path) => import(pathToFileURL(join(dist, path)).href);

async function walk(store) {
  const { locks, end } = await openStore(store);
  const run = async () => {
    const phases = {};
    entries = [];
    await locks.run("walk", () => {
      phases["acquire, free"] = entries;
      entries = [];
    });
    phases["release"] = entries;
    entries = [];
    return phases;
  };
  // Nothing is loaded or connected for the first time when it counts.
  await run();
  await run();
  await new Promise((settled) => setTimeout(settled, 200));
  const phases = await run();
  await locks.close();
  await end?.();
  return phases;
}

async function openStore(store) {
  const { connect, createLocks } = await load("index.js");
  if (store === "memory") return { locks: createLocks((await load("backends/memory/index.js")).memory()) };
  if (store === "file") return { locks: await connect(`file:${join(scratch, "locks")}`) };
  const lab = (path) => import(pathToFileURL(join(root, "build/lab/servers", path)).href);
  if (store === "zookeeper") {
    const servers = await (await lab("zookeeper.js")).startZooKeeper();
    return { locks: await connect(servers.url), end: () => servers.stop() };
  }
  const { startRedis } = await lab("redis.js");
  const servers = await Promise.all(Array.from({ length: store === "quorum" ? 3 : 1 }, () => startRedis()));
  const url =
    store === "redis"
      ? servers[0].url
      : servers
          .map(({ url: one }) => one)
          .join()
          .replaceAll(/,redis:\/\/|^redis:/g, (at) => (at[0] === "," ? "," : "redlock:"));
  return {
    // Members of a quorum abstain for a while after they were started.
    locks: await connect(url, { wait: "1m" }),
    end: () => Promise.all(servers.map((server) => server.stop())),
  };
}

function sum(list) {
  const switches = list.filter(({ file }, index) => index > 0 && file !== list[index - 1].file).length;
  const turns = list.filter(({ caller }) => caller === undefined).length;
  const visits = new Map();
  for (const [index, { file }] of list.entries())
    if (index === 0 || file !== list[index - 1].file) visits.set(file, (visits.get(file) ?? 0) + 1);
  const most = [...visits]
    .toSorted(([, a], [, b]) => b - a)
    .filter(([, count]) => count > 2)
    .slice(0, 5);
  return {
    calls: list.length,
    files: visits.size,
    switches,
    turns,
    most: most.map(([file, count]) => `${file} ×${count}`),
  };
}

try {
  const stores = positionals.length > 0 ? positionals : ["memory", "redis", "file", "quorum", "zookeeper"];
  for (const store of stores) {
    for (const [phase, list] of Object.entries(await walk(store))) {
      const result = { store, phase, ...sum(list) };
      if (values.json) console.log(JSON.stringify(result));
      else
        console.log(
          `${store.padEnd(10)} ${phase.padEnd(14)} ${String(result.calls).padStart(4)} calls ${String(result.files).padStart(3)} files ` +
            `${String(result.switches).padStart(4)} switches ${String(result.turns).padStart(3)} turns   ${result.most.join("  ")}`,
        );
      if (values.list)
        for (const { file, name, caller } of list)
          console.log(`  ${`${file}.${name}`.padEnd(60)} ${caller ?? "⟵ event loop"}`);
    }
  }
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
process.exit(0);
