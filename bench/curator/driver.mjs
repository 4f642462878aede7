/** Curator (Java) as a contestant: Debian's jars (libcurator-recipes-java), the driver is compiled here, once. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { run } from "../lib/peers.mjs";

const HERE = import.meta.dirname;
const CLASSES = join(HERE, "target");
const DEBIAN = "/usr/share/java";
const NAMES = [
  "curator-recipes",
  "curator-framework",
  "curator-client",
  "zookeeper",
  "zookeeper-jute",
  "guava",
  "failureaccess",
  "slf4j-api",
  "slf4j-nop",
  "netty-all",
  "commons-io",
  "netty-handler",
  "netty-transport",
  "netty-common",
  "netty-buffer",
  "netty-codec",
  "netty-resolver",
];

let prepared;

export async function curator(context) {
  if (!context.peers) return [];
  const jars = NAMES.map((name) => join(DEBIAN, `${name}.jar`)).filter((path) => existsSync(path));
  const path = [CLASSES, ...jars].join(":");
  prepared ??= prepare(path);
  const refusal = await prepared;
  const command = (env) => ["java", "-XX:+UseSerialGC", "-Xmx256m", "-cp", path, "Driver", String(env.port)];
  return [{ name: "Curator (Java)", family: "zookeeper", command, version: "Debian", refusal }];
}

async function prepare(path) {
  if (!existsSync(join(DEBIAN, "curator-recipes.jar"))) return "Debian's libcurator-recipes-java is not installed";
  if (existsSync(join(CLASSES, "Driver.class"))) return undefined;
  const sources = [join(HERE, "Driver.java"), join(HERE, "..", "java", "Orders.java")];
  const trouble = await run("javac", ["-cp", path, "-d", CLASSES, ...sources], HERE);
  return trouble === undefined ? undefined : `its driver could not be compiled: ${trouble}`;
}
