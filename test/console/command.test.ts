/** `holdfast console` as a program: where it listens, what it prints, and how it ends. */
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { afterAll, expect, test } from "vitest";
import { eventually } from "../../src/testing/eventually.ts";
import { Bench } from "../cli/harness.ts";
import { ask, Watcher } from "./stage.ts";

const bench = new Bench();
afterAll(() => bench.close());

interface Printed {
  readonly url: string;
  readonly port: number;
  readonly token: string;
  readonly allowRelease: boolean;
}

test("it listens on the loopback address, for who has the token; --allow-release ends leases, and says so", async () => {
  const served = bench.start(["console", "--port", "0", "--json", "--allow-release"]);
  const { url, port, token } = await eventually("it is printed", () =>
    served.stdout().endsWith("}\n") ? (JSON.parse(served.stdout()) as Printed) : undefined,
  );
  expect(url).toBe(`http://127.0.0.1:${port}/#token=${token}`);
  const origin = `http://127.0.0.1:${port}`;
  expect((await ask(`${origin}/hello`)).status).toBe(401);
  expect((await ask(`${origin}/`, { headers: { host: "evil.example" } })).status).toBe(421);
  const login = await ask(`${origin}/login`, { method: "POST", body: JSON.stringify({ token }) });
  const [cookie = ""] = String(login.headers["set-cookie"]).split(";");
  const headers = { cookie };
  const { csrf, canRelease, who } = (await ask(`${origin}/hello`, { headers })).json() as {
    csrf: string;
    canRelease: boolean;
    who: string;
  };
  expect([canRelease, who]).toEqual([true, expect.stringContaining("@")]);
  const held = bench.start(["run", "nightly", "--", "cat"]);
  const watcher = await Watcher.open(origin, { headers });
  const { rows } = await watcher.hears("rows", (message) => message.rows.length === 1);
  // What doctor says of this store is there, too.
  const { store } = await watcher.hears("overview", ({ store: { findings } }) => (findings?.length ?? 0) > 0);
  expect(store.backend).toBe("file");
  const body = JSON.stringify({ name: "nightly", fence: rows[0]!.holders[0]!.fence, reason: "it hangs" });
  const answer = await ask(`${origin}/release`, {
    method: "POST",
    body,
    headers: { ...headers, "x-holdfast-csrf": csrf },
  });
  expect(answer.json()).toEqual({ done: true, by: who });
  expect((await held.done).code).toBe(76);
  const audited = await eventually("it is written down", () =>
    served
      .stderr()
      .split("\n")
      .find((line) => line.includes('"release"')),
  );
  expect(JSON.parse(audited)).toMatchObject({ audit: { who, outcome: "done", lock: "nightly", reason: "it hangs" } });
  expect((await ask(`${origin}/metrics`, { headers: { authorization: `Bearer ${token}` } })).text).toContain(
    "holdfast_store_up 1",
  );
  expect(served.stderr()).not.toContain(token);
  served.process.kill("SIGINT");
  expect((await served.done).code).toBe(130);
});

test("it is read-only by itself, and a port that is taken is said to be", async () => {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const refused = await bench.run(["console", "--port", String(port)]);
  expect([refused.code, refused.stderr]).toEqual([
    64,
    expect.stringContaining(`port ${port} cannot be used (EADDRINUSE)`),
  ]);
  server.close();
  const served = bench.start(["console", "--port", "0"]);
  const token = await eventually("it is printed", () => /#token=([\w-]{43})\n/.exec(served.stdout())?.[1]);
  const [, origin] = /^(http:\/\/127\.0\.0\.1:\d+)\//.exec(served.stdout()) ?? [];
  const hello = await ask(`${origin}/hello`, { headers: { authorization: `Bearer ${token}` } });
  expect(hello.json()).toMatchObject({ canRelease: false });
  // No other address of this machine.
  await expect(ask(`${origin?.replace("127.0.0.1", "127.0.0.2")}/`)).rejects.toThrow();
  // What is asked for is printed, and can not drive the terminal.
  const denied = await ask(`${origin}/release`, {
    method: "POST",
    body: JSON.stringify({ name: "a\u001b[2J\nb", fence: "1", reason: "\u009b2Jx" }),
    headers: { authorization: `Bearer ${token}`, "x-holdfast-csrf": String(hello.json()["csrf"]) },
  });
  expect(denied.json()).toMatchObject({ code: "read-only" });
  const line = await eventually("it is written down", () =>
    served
      .stderr()
      .split("\n")
      .find((text) => text.startsWith("audit ")),
  );
  expect(line).toContain(String.raw`release of a\x1b[2J\x0ab (fence 1) refused`);
  expect(line).toMatch(/^[ -~]+$/);
  await eventually("it says so", () => (served.stderr().includes("read-only") ? true : undefined));
  served.process.kill("SIGTERM");
  expect((await served.done).code).toBe(143);
});
