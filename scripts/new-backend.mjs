/**
 * Creates the files of a new backend, and its rows in the tables. Its conformance tests fail until it is built.
 *
 *   npm run new-backend -- NAME [--scheme SCHEME]     NAME: a folder's name, such as etcd
 *   … --root DIR                                      in another checkout
 *   … --json                                          print the lists of files as one JSON document
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const USAGE = "Usage: npm run new-backend -- NAME [--scheme SCHEME] [--root DIR] [--json]";

function fail(message) {
  console.error(`${message}\n${USAGE}`);
  process.exit(64);
}

let args;
try {
  args = parseArgs({
    allowPositionals: true,
    options: {
      scheme: { type: "string" },
      root: { type: "string", default: fileURLToPath(new URL("..", import.meta.url)) },
      json: { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  });
} catch (error) {
  fail(error.message);
}
const { values, positionals } = args;
if (values.help) {
  console.log(USAGE);
  process.exit(0);
}
const [name] = positionals;
if (positionals.length !== 1 || !/^[a-z][a-z0-9]{1,30}$/.test(name)) {
  fail(
    `Expected one name of lower-case letters and digits, such as etcd, got ${JSON.stringify(positionals.join(" "))}.`,
  );
}
const scheme = values.scheme ?? name;
if (!/^[a-z][a-z0-9+-]{0,30}$/.test(scheme))
  fail(`Expected --scheme to be the beginning of a URL, such as etcd, got ${JSON.stringify(scheme)}.`);
const { root } = values;
const Name = name[0].toUpperCase() + name.slice(1);
const folder = `src/backends/${name}`;
if (existsSync(join(root, folder))) fail(`There is a backend ${name} already: ${folder}.`);

const created = {
  [`${folder}/index.ts`]: `/** ${Name}: what users import from \`holdfast/${name}\`. */
export { ${name} } from "./backend.ts";
export type { ${Name}Options } from "./options.ts";
`,
  [`${folder}/options.ts`]: `/** Options of ${name}(), checked when the backend is created. */
import { ArgumentError } from "../../contract/argument-error.ts";

export interface ${Name}Options {
  /** \`host:port\`. */
  readonly server: string;
}

export function checkOptions(options: ${Name}Options): void {
  if (typeof options?.server !== "string" || options.server === "") {
    throw new ArgumentError('Expected \`server\` to be a text such as "localhost:1234"');
  }
}
`,
  [`${folder}/open.ts`]: `/** Opens \`${scheme}:\` URLs. */
import { ArgumentError } from "../../contract/argument-error.ts";
import type { Backend } from "../../contract/backend.ts";
import { ${name} } from "./backend.ts";

export async function openBackend(url: string): Promise<Backend> {
  const { host, protocol } = new URL(url);
  if (protocol !== "${scheme}:" || host === "") {
    // The rest of the URL may hold a password: it is not repeated.
    throw new ArgumentError('Expected \`url\` to be "${scheme}://host:port"');
  }
  return ${name}({ server: host });
}
`,
  [`${folder}/backend.ts`]: `/** The backend: one atomic step in the store for each method of the contract. */
import type {
  Abilities,
  Backend,
  Claim,
  Granted,
  LockState,
  Outcome,
  Refused,
  Released,
  Renewal,
  Snapshot,
} from "../../contract/backend.ts";
import { unbuilt } from "./errors.ts";
import { forceRelease } from "./force-release.ts";
import { checkOptions, type ${Name}Options } from "./options.ts";
import { inspect, query } from "./query.ts";
import { renew } from "./renewals.ts";

export function ${name}(options: ${Name}Options): Backend {
  checkOptions(options);
  return new ${Name}Backend();
}

class ${Name}Backend implements Backend {
  readonly name = "${name}";
  /** \`true\`, or why not, as a sentence that users read. */
  readonly can: Abilities = {
    outcomes: "the ${name} backend is still to be built",
    wanted: "the ${name} backend is still to be built",
    otherTtl: "the ${name} backend is still to be built",
    steal: "the ${name} backend is still to be built",
    waiters: "the ${name} backend is still to be built",
  };

  async attempt(claim: Claim): Promise<Granted | Refused> {
    throw unbuilt(claim.name, "attempt");
  }

  async renew(claims: readonly Claim[], fences?: readonly bigint[]): Promise<readonly Renewal[]> {
    return await renew(claims, fences);
  }

  async release(claim: Claim, _outcome?: Outcome): Promise<Released> {
    throw unbuilt(claim.name, "release");
  }

  async query(prefix: string): Promise<Snapshot> {
    return await query(prefix);
  }

  async inspect(name: string): Promise<LockState> {
    return await inspect(name);
  }

  async forceRelease(name: string, fence: bigint, by: string, reason: string): Promise<boolean> {
    return await forceRelease(name, fence, by, reason);
  }

  async close(): Promise<void> {}
}
`,
  [`${folder}/renewals.ts`]: `/** Renews leases, many in one request. */
import type { Claim, Renewal } from "../../contract/backend.ts";
import { unbuilt } from "./errors.ts";

/** Answers in the order asked. One bad claim never harms another. */
export async function renew(claims: readonly Claim[], _fences?: readonly bigint[]): Promise<readonly Renewal[]> {
  return claims.map(({ name }) => ({ held: "unknown", cause: unbuilt(name, "renew") }));
}
`,
  [`${folder}/query.ts`]: `/** Reads who holds and who waits. */
import type { LockState, Snapshot } from "../../contract/backend.ts";
import { unbuilt } from "./errors.ts";

export async function query(prefix: string): Promise<Snapshot> {
  throw unbuilt(prefix, "query");
}

/** One lock, exactly: holders, waiters in order, what is left of a minHold, a quarantine, who was forced out, the outcome. */
export async function inspect(name: string): Promise<LockState> {
  throw unbuilt(name, "inspect");
}
`,
  [`${folder}/force-release.ts`]: `/** Ends a lease from outside, by its fence. */
import { unbuilt } from "./errors.ts";

export async function forceRelease(name: string, _fence: bigint, _by: string, _reason: string): Promise<boolean> {
  throw unbuilt(name, "forceRelease");
}
`,
  [`${folder}/errors.ts`]: `/** What the store's errors mean: unknown, or fatal. */
import { LockBackendError, quote } from "../../contract/errors.ts";

/** Every method that calls this is still to be built. */
export function unbuilt(lock: string, method: string): LockBackendError {
  return new LockBackendError("${name}", lock, \`Lock \${quote(lock)}: \${method}() of the ${name} backend is still to be built.\`, {
    fatal: true,
  });
}
`,
  [`src/cli/doctor/${name}.ts`]: `/** \`holdfast doctor\` on \`${scheme}:\`: what this store promises, from what is found there. */
import { openBackend } from "../../backends/${name}/open.ts";
import type { Examine } from "./report.ts";

export const examine${Name}: Examine = async ({ url }) => {
  const backend = await openBackend(url);
  try {
    await backend.query("");
  } finally {
    await backend.close();
  }
  return { backend: "${name}", facts: {}, findings: [], promises: [], limits: [] };
};
`,
  [`test/conformance/${name}.test.ts`]: `import { ${name} } from "../../src/backends/${name}/index.ts";
import { conformanceTests } from "./conformance-tests.ts";

conformanceTests({
  name: "${name}",
  // Start a real server here: see src/lab/servers.
  start: () => ({ open: () => ${name}({ server: "localhost:1" }) }),
});
`,
  [`docs/backends/${name}.md`]: `# ${Name}

\`\`\`ts
import { connect } from "holdfast";

const locks = await connect("${scheme}://localhost:1234");
\`\`\`

## What it promises

## What it cannot do

## How it works

## Options

## Layout in the store

## When something is wrong
`,
};

/** What is added to files that are there: behind the last line that matches. */
const touched = {
  "src/backends/all.ts": (text) =>
    insertBehind(
      text.replace(/(export type BackendName =[^;]*);/, `$1 | "${name}";`),
      /^ {2}zookeeper: .*$/m,
      `\n  ${name}: { schemes: ["${scheme}"], clients: [], load: () => import("./${name}/open.ts") },`,
    ),
  "src/cli/doctor/doctor.ts": (text) =>
    insertBehind(
      text,
      /^ {2}zookeeper: async .*$/m,
      `\n  ${name}: async () => (await import("./${name}.ts")).examine${Name},`,
    ),
  "src/lab/stages/all.ts": (text) => insertBehind(text, /^ {2}sentinel: .*$/m, `\n  ${name}: null,`),
  "package.json": (text) => {
    const manifest = JSON.parse(text);
    const { "./package.json": last, ...exports } = manifest.exports;
    const path = `./dist/backends/${name}/index`;
    manifest.exports = {
      ...exports,
      [`./${name}`]: { types: `${path}.d.ts`, default: `${path}.js` },
      "./package.json": last,
    };
    return `${JSON.stringify(manifest, undefined, 2)}\n`;
  },
  "test/budget/rooms.ts": (text) =>
    insertBehind(
      text,
      /^ {2}"test\/conformance\/zookeeper": .*$/m,
      `\n  "test/conformance/${name}": { cpu: 15, time: 30 },`,
    ),
};

/** Still to be done by hand, in files that are there. */
const BY_HAND = [
  "README.md: a row in the table of stores",
  "CHANGELOG.md: a line",
  "SECURITY.md: the minimal rights, with a test in test/security",
  "docs/safety.md: a column of what holds and what does not",
  "src/lab/stages/all.ts: a stage, with its server in src/lab/servers",
  "test/cli/steps.test.ts: a row of the matrix",
];

function insertBehind(text, pattern, more) {
  const match = pattern.exec(text);
  if (match === null) throw new Error(`Found nothing like ${pattern} to add a row behind`);
  const end = match.index + match[0].length;
  return text.slice(0, end) + more + text.slice(end);
}

for (const [path, change] of Object.entries(touched)) {
  const file = join(root, path);
  writeFileSync(file, change(readFileSync(file, "utf8")));
}
for (const [path, text] of Object.entries(created)) {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text, { flag: "wx" });
}
const lists = { created: Object.keys(created), touched: Object.keys(touched), byHand: BY_HAND };
if (values.json) console.log(JSON.stringify(lists));
else {
  console.log(`Created:\n  ${lists.created.join("\n  ")}\nChanged:\n  ${lists.touched.join("\n  ")}`);
  console.log(
    `Still to do:\n  ${BY_HAND.join("\n  ")}\nNow build it until this passes: npx vitest run test/conformance/${name}.test.ts`,
  );
}
