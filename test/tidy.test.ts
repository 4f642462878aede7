/** Style that can be checked is checked: import directions, exports and files, lengths, banned words. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { describe, expect, test } from "vitest";

const root = join(import.meta.dirname, "..");
const LINES_MAX = 300;

interface Source {
  readonly path: string;
  readonly text: string;
}

function sources(folder: string, ending: RegExp): Source[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .filter((path) => ending.test(path) && !path.includes("node_modules") && !path.includes("generated/"))
    .map((path) => join(folder, path))
    .map((path) => ({ path, text: readFileSync(join(root, path), "utf8") }));
}

/** Code without comments and texts, so that only what runs is judged. */
function code(text: string): string {
  return text
    .replaceAll(/\/\*[\s\S]*?\*\//g, "")
    .replaceAll(/(^|\s)\/\/.*$/gm, "")
    .replaceAll(/"(?:[^"\\\n]|\\.)*"/g, '""')
    .replaceAll(/`(?:[^`\\]|\\.)*`/g, "``")
    .replaceAll("NodeJS.Timeout", "");
}

const src = sources("src", /\.ts$/);
const tests = sources("test", /\.ts$/);

/** The part of the house a source file belongs to: `core`, or its folder. */
function part(path: string): string {
  const inside = relative("src", path);
  return inside.includes("/") ? inside.slice(0, inside.indexOf("/")) : "core";
}

function imports(source: Source): string[] {
  const found = source.text.matchAll(/(?:from|import)\s*\(?\s*"(\.[^"]+)"/g);
  return [...found].map(([, specifier]) => join(dirname(source.path), specifier!));
}

const BACKENDS = ["memory", "file", "redis", "quorum", "zookeeper"];
const MAY_KNOW: Readonly<Record<string, readonly string[]>> = {
  core: ["core"],
  ...Object.fromEntries(BACKENDS.map((backend) => [backend, ["core", backend]])),
  fence: ["core", "fence"],
  testing: ["core", "memory", "testing"],
  lab: ["core", ...BACKENDS, "fence", "testing", "lab"],
  cli: ["core", ...BACKENDS, "fence", "lab", "cli"],
};

/** The doors through which a lower part may reach a higher one, each with its reason. */
const DOORS: readonly (readonly [from: string, to: RegExp])[] = [
  // connect() opens backends by URL; each is imported only when its scheme is asked for.
  ["src/connect.ts", /^src\/(memory|file|redis|quorum|zookeeper)\/open\.ts$/],
  // redlock:// names Redis servers: the members are opened by the Redis backend.
  ["src/quorum/open.ts", /^src\/redis\/open\.ts$/],
  // Late messages are judged in the simulation by the very queue that Redis uses, and not by a copy of its rule.
  ["src/testing/simulation/network.ts", /^src\/redis\/queue\.ts$/],
];

describe("architecture", () => {
  test("imports point downwards: cli and lab → backends → core", () => {
    const wrong = src.flatMap((source) =>
      imports(source)
        .filter((target) => !MAY_KNOW[part(source.path)]?.includes(part(target)))
        .filter((target) => !DOORS.some(([from, to]) => from === source.path && to.test(target)))
        .map((target) => `${source.path} imports ${target}`),
    );
    expect(wrong).toEqual([]);
  });

  test("the core imports nothing but Node's own modules", () => {
    const wrong = src
      .filter(({ path }) => part(path) === "core")
      .flatMap(({ path, text }) =>
        [...text.matchAll(/from "([^".][^"]*)"/g)]
          .map(([, name]) => name!)
          .filter((name) => !name.startsWith("node:"))
          .map((name) => `${path}: ${name}`),
      );
    expect(wrong).toEqual([]);
  });

  test("every export has its source file, and every public index its export", () => {
    const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
      exports: Record<string, { types: string; default: string } | string>;
    };
    const exported = Object.values(manifest.exports).flatMap((entry) => (typeof entry === "string" ? [] : [entry]));
    for (const { types, default: main } of exported) {
      expect(types).toBe(main.replace(/\.js$/, ".d.ts"));
      expect(existsSync(join(root, main.replace("./dist/", "src/").replace(/\.js$/, ".ts"))), main).toBe(true);
    }
    for (const entry of Object.values(manifest.exports))
      if (typeof entry === "object") expect(Object.keys(entry)[0]).toBe("types");
    const mains = new Set(exported.map(({ default: main }) => main.replace("./dist/", "src/").replace(/\.js$/, ".ts")));
    const indexes = src.map(({ path }) => path).filter((path) => path.endsWith("/index.ts"));
    expect(indexes.filter((path) => !mains.has(path))).toEqual([]);
  });

  test("nothing is a dependency of those who install the package", () => {
    const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as Record<
      string,
      Record<string, unknown> | undefined
    >;
    expect(manifest["dependencies"] ?? {}).toEqual({});
    expect(
      Object.keys(manifest["peerDependencies"] ?? {}).filter(
        (name) => !(manifest["peerDependenciesMeta"]?.[name] as { optional?: boolean })?.optional,
      ),
    ).toEqual([]);
    expect(Object.keys(manifest["scripts"] ?? {}).filter((name) => /^(pre|post)?install$/.test(name))).toEqual([]);
  });
});

describe("files", () => {
  test(`no source file is longer than ${LINES_MAX} lines`, () => {
    const long = src
      .map(({ path, text }) => ({ path, lines: text.split("\n").length - 1 }))
      .filter(({ lines }) => lines > LINES_MAX);
    expect(long).toEqual([]);
  });

  test("every source file says in its first lines what it is for", () => {
    const silent = src
      .filter(({ path, text }) => !path.endsWith("/index.ts") && !/^(#!.*\n)?(\/\*\*|\/\/)/.test(text))
      .map(({ path }) => path);
    expect(silent).toEqual([]);
  });

  test("no default exports, enums, namespaces, utils or helpers", () => {
    const wrong = src
      .filter(
        ({ path, text }) =>
          /^export default|^(export )?(const )?enum |^(export )?namespace /m.test(code(text)) ||
          /(^|\/)(utils?|helpers?|misc|common)(\.ts|\/)/.test(path),
      )
      .map(({ path }) => path);
    expect(wrong).toEqual([]);
  });
});

describe("words", () => {
  test("nothing is left for later", () => {
    const open = src.filter(({ text }) => /\b(TODO|FIXME|XXX)\b|not implemented/i.test(text)).map(({ path }) => path);
    expect(open).toEqual([]);
  });

  test("the wall clock decides nothing: Date.now() stands only where it is told why", () => {
    const allowed = [/^src\/clock\.ts$/, /^src\/(file|lab|cli|testing|quorum|zookeeper)\//];
    const wrong = src
      .filter(
        ({ path, text }) => /Date\.now\(\)|new Date\(/.test(code(text)) && !allowed.some((place) => place.test(path)),
      )
      .map(({ path }) => path);
    expect(wrong).toEqual([]);
  });

  test("the core keeps to the glossary", () => {
    const banned = /\b(mutex|token|owner|expiry|timeout|resource)\b/i;
    // The options of users are checked there, and `timeout` is one: how long to wait for an answer of the store.
    const options = ["src/spec.ts", "src/api.ts"];
    const wrong = src
      .filter(({ path, text }) => part(path) === "core" && !options.includes(path) && banned.test(code(text)))
      .map(({ path }) => path);
    expect(wrong).toEqual([]);
  });

  test("libraries do not print: console belongs to the cli and the lab", () => {
    const wrong = src
      .filter(({ path, text }) => !/^src\/(cli|lab)\//.test(path) && /\bconsole\./.test(code(text)))
      .map(({ path }) => path);
    expect(wrong).toEqual([]);
  });

  test("no test is skipped, singled out, left to do, or tried again", () => {
    const wrong = tests
      .filter(
        ({ path, text }) =>
          !path.endsWith("tidy.test.ts") &&
          /\b(it|test|describe)\.(only|skip|skipIf|todo|fails)\b|retry: *[1-9]/.test(text),
      )
      .map(({ path }) => path);
    expect(wrong).toEqual([]);
  });
});
