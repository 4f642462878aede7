// As much of Vitest as the tests of the nearest kind use, in one process and without a server: most of what a small bug costs
// to try is the start of the runner. What is green here is asked again with Vitest itself before it counts as a survivor.
import { AsyncLocalStorage } from "node:async_hooks";
import { createRequire } from "node:module";
import { fileURLToPath, pathToFileURL } from "node:url";

// The parts of which Vitest itself is made, wherever it has them.
const { resolve } = createRequire(fileURLToPath(import.meta.resolve("vitest/package.json")));
const part = (name) => import(pathToFileURL(resolve(name)).href);
const [{ ASYMMETRIC_MATCHERS_OBJECT, JestAsymmetricMatchers, JestChaiExpect, JestExtend }, { fn, spyOn }, chai] =
  await Promise.all(["@vitest/expect", "@vitest/spy", "chai"].map(part));

/** Generous: a busy machine is no bug. With a bug, `mostMs` says how long a test may take. */
const TEST_MS = 240_000;
const HOOK_MS = 240_000;
const AT_ONCE = 12;

chai.use(JestExtend);
chai.use(JestChaiExpect);
chai.use(JestAsymmetricMatchers);
export const expect = Object.assign(
  (value, message) => chai.expect(value, message),
  chai.expect,
  globalThis[ASYMMETRIC_MATCHERS_OBJECT],
);

let current;
/** What this run is asked for: names of tests that are left out, and how long any single test of a file may take. */
let asked = {};
let mostMs = Infinity;
const newSuite = (name, concurrent) => ({
  name,
  concurrent,
  tests: [],
  beforeAll: [],
  afterAll: [],
  beforeEach: [],
  afterEach: [],
});

/** (name, work), (name, options, work) or (name, work, ms). */
function parts(name, second, third) {
  const options = typeof second === "object" ? second : { timeout: third };
  return { name: String(name), options, work: typeof second === "function" ? second : third };
}

function addTest(...given) {
  const { name, options, work } = parts(...given);
  if (asked.without?.test(name)) return;
  current.tests.push({ name, work, ms: Math.min(options.timeout ?? TEST_MS, mostMs) });
}

function addSuite(concurrent, ...given) {
  const { name, options, work } = parts(...given);
  const outer = current;
  current = newSuite(name, options.concurrent ?? (concurrent || outer.concurrent));
  outer.tests.push({ name, suite: current });
  work();
  current = outer;
}

const each = (add) => (rows) => (name, second, third) => {
  const { options, work } = parts(name, second, third);
  for (const [i, row] of rows.entries())
    add(`${name} #${i}`, options, () => work(...(Array.isArray(row) ? row : [row])));
};

const withEach = (add) => Object.assign(add, { each: each(add) });
export const test = withEach(addTest);
export const describe = Object.assign(
  withEach((...given) => addSuite(false, ...given)),
  { concurrent: withEach((...given) => addSuite(true, ...given)) },
);
const hook = (kind) => (work, ms) => void current[kind].push({ work, ms: ms ?? HOOK_MS });
export const beforeAll = hook("beforeAll");
export const afterAll = hook("afterAll");
export const beforeEach = hook("beforeEach");
export const afterEach = hook("afterEach");
/** What the test that is under way wants done after it. Several may be under way. */
const finishing = new AsyncLocalStorage();
export const onTestFinished = (work, ms) => void finishing.getStore().push({ work, ms: ms ?? HOOK_MS });

const stubbed = new Map();
export const vi = {
  fn,
  spyOn,
  /** Limits are set from outside here. */
  setConfig() {},
  stubEnv(name, value) {
    if (!stubbed.has(name)) stubbed.set(name, process.env[name]);
    if (value === undefined) delete process.env[name];
    else process.env[name] = value;
  },
  unstubAllEnvs() {
    for (const [name, value] of stubbed) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
    stubbed.clear();
  },
  async waitFor(look, options = {}) {
    const { timeout = 1000, interval = 50 } = typeof options === "number" ? { timeout: options } : options;
    const untilMs = performance.now() + timeout;
    for (;;) {
      try {
        return await look();
      } catch (error) {
        if (performance.now() > untilMs) throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, interval));
    }
  },
  async waitUntil(look, options) {
    return vi.waitFor(async () => {
      const seen = await look();
      if (!seen) throw new Error("not yet");
      return seen;
    }, options);
  },
};

async function within({ work, ms }) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done after ${ms} ms`)), ms);
  });
  try {
    await Promise.race([work({}), late]);
  } finally {
    clearTimeout(timer);
  }
}

class Red extends Error {
  constructor(test, cause) {
    super(String(cause?.stack ?? cause));
    this.test = test;
  }
}

async function runTest(test, path, around) {
  try {
    for (const suite of around) for (const each of suite.beforeEach) await within(each);
    const finished = [];
    try {
      await finishing.run(finished, () => within(test));
    } finally {
      for (const suite of around.toReversed()) for (const each of suite.afterEach.toReversed()) await within(each);
      for (const each of finished.toReversed()) await within(each);
    }
  } catch (error) {
    throw new Red(`${path} ${test.name}`.trim(), error);
  }
}

async function runSuite(suite, path, outer) {
  const around = [...outer, suite];
  const runOne = (test) =>
    test.suite ? runSuite(test.suite, `${path} ${test.name}`.trim(), around) : runTest(test, path, around);
  try {
    for (const each of suite.beforeAll) await within(each);
    const queue = suite.tests.slice();
    const worker = async () => {
      for (let test = queue.shift(); test !== undefined; test = queue.shift()) await runOne(test);
    };
    const workers = Array.from({ length: suite.concurrent ? AT_ONCE : 1 }, worker);
    const red = (await Promise.allSettled(workers)).find(({ status }) => status === "rejected");
    if (red) throw red.reason;
  } finally {
    for (const each of suite.afterAll.toReversed()) await within(each);
  }
}

/** Runs the files one after the other, up to the first red test. */
export async function runFiles(files, { without, mostMs: most = {} }) {
  asked = { without };
  const times = {};
  for (const file of files) {
    const startedMs = performance.now();
    current = newSuite("", false);
    const root = current;
    mostMs = most[file] ?? Infinity;
    try {
      await import(pathToFileURL(file).href);
      await runSuite(root, "", []);
    } catch (error) {
      return { times, red: { file, test: error.test ?? "(not loaded)", message: error.message } };
    }
    times[file] = performance.now() - startedMs;
  }
  return { times };
}
