// Verrou's published suite for drivers, over Holdfast's: `registerStoreTestSuite` of @verrou/core, through a stand-in for its test runner.
import { strict as assert } from "node:assert";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { registerStoreTestSuite } from "@verrou/core/test_suite";

/** Cases that are not passed on purpose, with the reason. */
const DECLINED = {};
const VERSION = JSON.parse(
  readFileSync(join(import.meta.dirname, "../node_modules/@verrou/core/package.json"), "utf8"),
).version;

const STORES = {
  memory: async () => ({ url: "memory:", stop: async () => {} }),
  file: async () => {
    const folder = mkdtempSync(join(tmpdir(), "holdfast-verrou-"));
    return { url: `file:${folder}`, stop: async () => rmSync(folder, { recursive: true, force: true }) };
  },
  redis: async () => {
    const { startRedis } = await import("../build/lab/servers/redis.js");
    const server = await startRedis();
    return { url: server.url, stop: () => server.stop() };
  },
  postgres: async () => {
    const { startPostgres } = await import("../build/lab/servers/postgres.js");
    const server = await startPostgres();
    return { url: `${server.url}?migrate=true`, stop: () => server.stop() };
  },
};

export async function judgeVerrou({ say }) {
  const [rows, findings] = [[], []];
  for (const [name, start] of Object.entries(STORES)) {
    say(`Verrou ${VERSION} on ${name} …`);
    const server = await start();
    try {
      const { passed, failed, declined } = await runSuite(server.url);
      rows.push({
        Verrou: VERSION,
        store: name,
        passed: passed.length,
        failed: failed.length,
        declined: reasons(declined),
      });
      findings.push(...failed.map((line) => `Verrou on ${name}: ${line}`));
    } finally {
      await server.stop();
    }
  }
  return { rows, findings, refusals: [] };
}

/** Each case over locks of its own, so that none leaves anything to the next. */
async function runSuite(url) {
  const { connect } = await import("../dist/index.js");
  const { holdfastStore } = await import("../dist/drop-ins/verrou/index.js");
  const [passed, declined] = [[], []];
  /** @type {string[]} */
  const failed = [];
  let opened;
  for (const { title, run } of casesOf(() => holdfastStore(opened).factory())) {
    if (Object.hasOwn(DECLINED, title)) {
      declined.push(title);
      continue;
    }
    opened = await connect(url);
    try {
      await run();
      passed.push(title);
    } catch (error) {
      failed.push(`${title}: ${error.message}`);
    } finally {
      await opened.close({ grace: 0, force: true });
    }
  }
  return { passed, failed, declined };
}

/** The cases of the suite, as functions. */
function casesOf(createStore) {
  const cases = [];
  const test = (title, body) => {
    const one = { title, run: () => body({ assert: ASSERT }) };
    cases.push(one);
    return {
      // The case must throw that.
      throws(message, kind) {
        one.run = () =>
          assert.rejects(
            Promise.resolve(body({ assert: ASSERT })),
            (error) => error instanceof kind && error.message === message,
          );
      },
    };
  };
  registerStoreTestSuite({ test, createStore });
  return cases;
}

/** What the suite uses of its runner's assertions. */
const ASSERT = {
  isTrue: (value) => assert.equal(value, true),
  isFalse: (value) => assert.equal(value, false),
  isString: (value) => assert.equal(typeof value, "string"),
  equal: (actual, expected) => assert.equal(actual, expected),
  deepEqual: (actual, expected) => assert.deepEqual(actual, expected),
  rejects: (body, message) => assert.rejects(body, { message }),
};

function reasons(declined) {
  return declined.length === 0 ? "none" : declined.map((title) => `${title}: ${DECLINED[title]}`).join("; ");
}
