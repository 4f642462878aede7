/** How large Holdfast is: in a bundle of its users', and as a package. */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { rolldown } from "rolldown";
import { DIST } from "./holdfast.mjs";

const kb = (bytes) => bytes / 1000;
const gzipKb = (text) => kb(gzipSync(text, { level: 9 }).length);

/** The core alone, and with each of these backends: what a program loads at its start, without what is loaded on demand. */
export async function bundled(backends) {
  const rows = [await bundleOf("core", 'export { createLocks } from "core";')];
  for (const name of backends) {
    const both = `export { createLocks } from "core"; export { ${name} } from "backend/${name}";`;
    rows.push(await bundleOf(`core and ${name}`, both));
  }
  return rows;
}

async function bundleOf(name, text) {
  const places = {
    name: "places",
    resolveId: (id) => {
      if (id === "program") return id;
      if (id === "core") return join(DIST, "index.js");
      return id.startsWith("backend/") ? join(DIST, "backends", id.slice("backend/".length), "index.js") : undefined;
    },
    load: (id) => (id === "program" ? text : undefined),
  };
  const bundle = await rolldown({ input: "program", platform: "node", plugins: [places], logLevel: "silent" });
  const { output } = await bundle.generate({ format: "esm", minify: true });
  await bundle.close();
  const chunks = new Map(output.map((chunk) => [chunk.fileName, chunk]));
  const loaded = new Set(output.filter(({ isEntry }) => isEntry).map(({ fileName }) => fileName));
  for (const file of loaded) for (const needed of chunks.get(file).imports) if (chunks.has(needed)) loaded.add(needed);
  const code = [...loaded].map((file) => chunks.get(file).code).join("\n");
  return { name, own: true, ran: true, minifiedKb: kb(code.length), gzipKb: gzipKb(code) };
}

/** What npm packs, and its parts: the JavaScript of a room is compressed by itself. */
export function packed() {
  const root = join(DIST, "..");
  const said = execFileSync("npm", ["pack", "--dry-run", "--json", "--ignore-scripts"], {
    cwd: root,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "ignore"],
  });
  const [{ size, files }] = JSON.parse(said);
  const parts = [...grouped(files)].map(([name, members]) => ({
    name,
    ran: true,
    gzipKb: gzipKb(members.map(({ path }) => readFileSync(join(root, path), "utf8")).join("\n")),
    files: members.length,
  }));
  parts.sort((a, b) => b.gzipKb - a.gzipKb);
  return [{ name: "the whole package", own: true, ran: true, gzipKb: kb(size), files: files.length }, ...parts];
}

function grouped(files) {
  const rooms = new Map();
  for (const file of files) rooms.set(roomOf(file.path), [...(rooms.get(roomOf(file.path)) ?? []), file]);
  return rooms;
}

function roomOf(path) {
  if (path.endsWith(".d.ts")) return "declarations";
  const [, room, backend] = /^dist\/(?:chunks\/)?([\w-]+)(?:\/([\w-]+))?/.exec(path) ?? [];
  if (room === undefined) return "pages and package.json";
  if (room === "file" || (room === "backends" && backend === "file")) return "file";
  if (room === "backends") return backend;
  if (["run", "file2"].includes(room)) return "cli";
  return ["contract", "index"].includes(room) ? "core" : room;
}
