// Test suites that others wrote, run on locks of Holdfast through small adapters: Curator's tests of its mutex, and ShedLock's of a provider.
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { run } from "../bench/lib/peers.mjs";

const HERE = join(import.meta.dirname, "suites");
const [JARS, CLASSES, REPORTS] = ["jars", "classes", "reports"].map((name) => join(HERE, "target", name));
const COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies";
const SOURCES = ["Bridge.java", "CuratorSuite.java", "ShedLockSuite.java"].map((name) => join(HERE, name));

/** Tests that Holdfast cannot pass, each with the reason. One that passes all the same is a finding: then the reason is wrong. */
const DECLINED = {
  "testKilledSession()": "it ends the session of the Java client, and Holdfast has its own",
  "shouldBeAbleToExtendAtLeast()": "a minHold is said when the lock is taken, not later",
  "shouldNotBeAbleToExtendExpiredLock()": "its lease lasts 2 ms, and the adapter raises that to our least ttl, 100 ms",
};

export async function judgeSuites({ say }) {
  const trouble = await prepare(say);
  if (trouble !== undefined) return { rows: [], findings: [], refusals: [trouble] };
  const [rows, findings, refusals] = [[], [], []];
  const judge = async (suite, version, store, className, url) => {
    say(`${suite} ${versionOf(version)}, on ${store} …`);
    const cases = await runSuite(className, url);
    if (typeof cases === "string") return void refusals.push(`${suite} on ${store}: ${cases}`);
    const declined = cases.filter(({ name }) => Object.hasOwn(DECLINED, name));
    const failed = cases.filter(({ name, fault }) => fault !== undefined && !Object.hasOwn(DECLINED, name));
    findings.push(...failed.map(({ name, fault }) => `${suite} on ${store}: ${name}: ${fault}`));
    findings.push(
      ...declined
        .filter(({ fault }) => fault === undefined)
        .map(({ name }) => `${suite} on ${store}: ${name} passes, so it is not to be declined`),
    );
    rows.push({
      suite: `${suite} ${versionOf(version)}`,
      store,
      tests: cases.length,
      passed: cases.filter(({ fault }) => fault === undefined).length,
      failed: failed.length,
      declined: declined.map(({ name }) => `${name}: ${DECLINED[name]}`).join("; ") || "–",
    });
  };
  await judge("Curator, TestInterProcessMutexBase", "curator-recipes", "ZooKeeper", "CuratorSuite", "");
  await onStores((store, url) =>
    judge("ShedLock, provider and fuzz tests", "shedlock-test-support", store, "ShedLockSuite", url),
  );
  return { rows, findings, refusals };
}

/** The stores on which ShedLock's tests run: its own table, and ours. */
async function onStores(judge) {
  const [{ startPostgres }, { startRedis }, { SHEDLOCK_TABLE }] = await Promise.all([
    import("../build/lab/servers/postgres.js"),
    import("../build/lab/servers/redis.js"),
    import("../dist/backends/shedlock/index.js"),
  ]);
  const postgres = await startPostgres();
  try {
    await postgres.sql(SHEDLOCK_TABLE);
    await judge("ShedLock's table", postgres.url.replace(/^\w+:/, "postgres+shedlock:"));
    await judge("Postgres", `${postgres.url}?migrate=true`);
  } finally {
    await postgres.stop();
  }
  const redis = await startRedis();
  try {
    await judge("Redis", `redis://:${encodeURIComponent(redis.password)}@${redis.host}:${redis.port}`);
  } finally {
    await redis.stop();
  }
}

/** What the suites need from Maven Central. Resolves with the reason where it could not be had. */
export async function prepareJars(say) {
  if (existsSync(JARS)) return undefined;
  say("fetching the suites of Curator and ShedLock from Maven Central (once) …");
  const args = ["-q", "-B", COPY, `-DoutputDirectory=${JARS}`, "-DincludeScope=runtime"];
  const trouble = await run("mvn", args, HERE);
  return trouble === undefined ? undefined : `the suites could not be had: ${trouble}`;
}

async function prepare(say) {
  const missing = await prepareJars(say);
  if (missing !== undefined) return missing;
  const builtMs = statSync(join(CLASSES, "ShedLockSuite.class"), { throwIfNoEntry: false })?.mtimeMs ?? 0;
  if (SOURCES.every((source) => statSync(source).mtimeMs < builtMs)) return undefined;
  mkdirSync(CLASSES, { recursive: true });
  const trouble = await run("javac", ["-cp", suitesJars(), "-d", CLASSES, ...SOURCES], HERE);
  return trouble === undefined ? undefined : `the adapters could not be compiled: ${trouble}`;
}

/** The launcher brings JUnit along: other versions of it, which the suites ask for, would be in its way. */
export function suitesJars() {
  const jars = readdirSync(JARS).filter(
    (name) => !/^(?:junit-|opentest4j|apiguardian)/.test(name) || name.includes("console-standalone"),
  );
  return jars.map((name) => join(JARS, name)).join(":");
}

/** Each test with what went wrong in it; or why there is none. */
async function runSuite(className, url) {
  rmSync(REPORTS, { recursive: true, force: true });
  const properties = { node: process.execPath, bridge: join(HERE, "bridge.mjs") };
  // Not as an argument, which every user of the machine can read.
  process.env.HOLDFAST_URL = url;
  const java = Object.entries(properties).map(([name, value]) => `-Dholdfast.${name}=${value}`);
  const launcher = [
    "-cp",
    `${CLASSES}:${suitesJars()}`,
    "org.junit.platform.console.ConsoleLauncher",
    "execute",
    "--disable-banner",
  ];
  const what = ["--select-class", className, "--reports-dir", REPORTS, "--details=none"];
  const trouble = await run("java", [...java, ...launcher, ...what], HERE);
  const report = join(REPORTS, "TEST-junit-jupiter.xml");
  if (!existsSync(report)) return trouble ?? "it left no report";
  const cases = [...readFileSync(report, "utf8").matchAll(/<testcase name="([^"]*)"[^>]*>([\s\S]*?)<\/testcase>/g)];
  if (cases.length === 0) return "no test ran";
  return cases.map(([, name, text]) => ({ name, fault: /<(?:failure|error)[^>]*message="([^"]*)/.exec(text)?.[1] }));
}

function versionOf(jar) {
  const pattern = new RegExp(`^${jar}-(\\d[\\d.]*)\\.jar$`);
  return readdirSync(JARS)
    .map((name) => pattern.exec(name)?.[1])
    .find((version) => version !== undefined);
}
