/** ShedLock (Java) as a contestant: the jars come from Maven Central, the driver is compiled here, once. */
import { existsSync } from "node:fs";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { run } from "../lib/peers.mjs";

const HERE = import.meta.dirname;
export const JARS = join(HERE, "target", "jars");
const CLASSES = join(HERE, "target", "classes");
const COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies";

let prepared;

/** One entrant; with `refusal` where Java, Maven or Maven Central is missing. None when peers are not wanted. */
export async function shedlock(context) {
  if (!context.peers) return [];
  prepared ??= prepare(context);
  const refusal = await prepared;
  const command = (env) => [
    "java",
    "-XX:+UseSerialGC",
    "-Xmx256m",
    "-cp",
    `${CLASSES}:${JARS}/*`,
    "Driver",
    String(env.port),
  ];
  return [{ name: "ShedLock (Java)", family: "shedlock", command, version: version(), refusal }];
}

async function prepare(context) {
  if (!existsSync(JARS)) {
    context.say("fetching ShedLock's jars from Maven Central (once) …");
    const trouble = await run(
      "mvn",
      ["-q", "-B", COPY, "-DoutputDirectory=target/jars", "-DincludeScope=runtime"],
      HERE,
    );
    if (trouble !== undefined) return `its jars could not be had: ${trouble}`;
  }
  if (!existsSync(join(CLASSES, "Driver.class"))) {
    const sources = [join(HERE, "Driver.java"), join(HERE, "..", "java", "Orders.java")];
    const trouble = await run("javac", ["-cp", `${JARS}/*`, "-d", CLASSES, ...sources], HERE);
    if (trouble !== undefined) return `its driver could not be compiled: ${trouble}`;
  }
  return undefined;
}

function version() {
  if (!existsSync(JARS)) return undefined;
  const jar = readdirSync(JARS).find((name) => /^shedlock-core-\d/.test(name));
  return /^shedlock-core-(.*)\.jar$/.exec(jar ?? "")?.[1];
}
