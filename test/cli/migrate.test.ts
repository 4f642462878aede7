/** `holdfast migrate` on a real Postgres: makes, keeps, prints, and refuses what needs no tables. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { LOCKS_MIGRATION } from "../../src/backends/postgres/index.ts";
import { type PostgresServer, startPostgres } from "../../src/lab/servers/postgres.ts";
import { Bench, type Result } from "./harness.ts";

const bench = new Bench();
let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(async () => {
  await server?.stop();
  bench.close();
});

const migrate = (url: string, ...args: string[]): Promise<Result> =>
  bench.run(["migrate", ...args], { env: { HOLDFAST_URL: url } });

test("it makes the tables, also of many processes at once, and keeps what is there", async () => {
  const made = await Promise.all([migrate(server.url), migrate(server.url)]);
  expect(made).toMatchObject([{ code: 0, stderr: "" }, { code: 0 }]);
  await server.sql("update holdfast.store set floor = 7");
  const { code, stdout } = await migrate(server.url, "--json");
  expect({ code, said: JSON.parse(stdout) as unknown }).toEqual({ code: 0, said: { version: 3 } });
  expect(await server.sql("select floor from holdfast.store")).toBe("7");
  const taken = await bench.run(["run", "job", "-n", "--", "true"], { env: { HOLDFAST_URL: server.url } });
  expect(taken).toMatchObject({ code: 0, stderr: "" });
});

test("ShedLock's table is made with its own URL, and a server that is not there is an error without the password", async () => {
  const url = server.url.replace("postgres:", "postgres+shedlock:");
  expect(await migrate(`${url}?table=jobs`)).toMatchObject({ code: 0, stdout: "The table jobs is there.\n" });
  expect(await server.sql("select count(*) from jobs")).toBe("0");
  const away = await migrate("postgres://someone:hidden-word@127.0.0.1:1/x");
  expect(away.code).toBe(69);
  expect(away.stderr).toContain("127.0.0.1:1");
  expect(away.stdout + away.stderr).not.toContain("hidden-word");
});

test("it prints the SQL without a server, and refuses a store that needs no tables", async () => {
  expect(await bench.run(["migrate", "--print"])).toMatchObject({ code: 0, stdout: LOCKS_MIGRATION });
  expect(await bench.run(["migrate"])).toMatchObject({ code: 64, stdout: "" });
});
