/** What a request may do: who is let in, what another site can not do, and what is written down. */
import { expect, onTestFinished, test, vi } from "vitest";
import { createConsole } from "../../src/console/create.ts";
import { withLogin } from "../../src/console/create.ts";
import * as surface from "../../src/console/index.ts";
import { cookieName, Login } from "../../src/console/login.ts";
import type { ConsoleAction, ConsoleOptions } from "../../src/console/options.ts";
import { collectMetrics } from "../../src/telemetry/prometheus/index.ts";
import { eventually } from "../../src/testing/eventually.ts";
import { Stage, Watcher } from "./stage.ts";

test("holdfast/console exports these names and no others", () => {
  expect(Object.keys(surface)).toEqual(["createConsole"]);
});

test.each<[string, Partial<ConsoleOptions> | undefined | null, RegExp]>([
  ["no options", undefined, /`options`.*`authorize`/],
  ["no authorize", {}, /`authorize`.*Behind a proxy every request looks local/],
  ["an authorize that is none", { authorize: true as never }, /`authorize`/],
  ["an unknown option", { authorize: () => "x", allowWrite: true } as never, /Unknown option `allowWrite`/],
  ["a path without a slash", { authorize: () => "x", path: "locks" }, /`path`/],
  ["a path that ends in one", { authorize: () => "x", path: "/locks/" }, /`path`/],
  ["a trace address that is a script", { authorize: () => "x", traceUrl: "javascript:alert({traceId})" }, /`traceUrl`/],
  ["a trace address without a trace", { authorize: () => "x", traceUrl: "https://traces.example/" }, /`traceUrl`/],
  ["no viewers", { authorize: () => "x", maxViewers: 0 }, /`maxViewers`/],
  ["a text for allowRelease", { authorize: () => "x", allowRelease: "no" as never }, /`allowRelease`/],
  ["hosts that are none", { authorize: () => "x", hosts: [7] as never }, /`hosts`/],
])("%s is a TypeError", (_, options, message) => {
  expect(() => createConsole(new Stage().locks, options as ConsoleOptions)).toThrow(message);
  expect(() => createConsole(new Stage().locks, options as ConsoleOptions)).toThrow(TypeError);
});

test("authorize is asked for every request that shows or does anything, and no means no", async () => {
  const actions: ConsoleAction[] = [];
  const stage = await new Stage().start({ allowRelease: true, authorize: (_, action) => (actions.push(action), null) });
  for (const path of ["/hello", "/events", "/metrics"]) {
    const answer = await stage.ask(path);
    expect([path, answer.status, answer.json()["code"]]).toEqual([path, 403, "forbidden"]);
  }
  expect((await stage.ask("/")).status).toBe(403);
  const body = JSON.stringify({ name: "a", fence: "1", reason: "x" });
  expect((await stage.ask("/release", { method: "POST", body })).status).toBe(403);
  expect((await stage.ask("/watch", { method: "POST", body: "{}" })).status).toBe(403);
  expect((await stage.ask("/login", { method: "POST", body: "{}" })).status).toBe(404);
  expect(actions.map(({ kind }) => kind)).toEqual(["read", "read", "metrics", "read", "release", "read"]);
  expect(actions[4]).toEqual({ kind: "release", lock: "a", fence: 1n, reason: "x" });
  expect(stage.counts.queries).toBe(0);
  expect(stage.audit).toMatchObject([
    { action: "release", outcome: "refused", who: "", lock: "a", fence: "1", reason: "x" },
  ]);
});

test("an authorize that throws, or returns true, lets no one in, and the page does not say why", async () => {
  const warned = vi.spyOn(process, "emitWarning").mockImplementation(() => {});
  for (const authorize of [() => true as never, () => Promise.reject(new Error("secret of the app"))]) {
    const stage = await new Stage().start({ authorize });
    const answer = await stage.ask("/hello");
    expect(answer.status).toBe(500);
    expect(answer.text).not.toContain("secret of the app");
  }
  expect(warned).toHaveBeenCalledTimes(2);
  warned.mockRestore();
});

test("a lease is ended with its fence and a reason, by who authorize says; that is kept, and written down", async () => {
  const stage = await new Stage().start({
    allowRelease: true,
    authorize: (request) => String(request.headers["x-user"] ?? "ada"),
  });
  const lease = await stage.other("web:1").acquire("invoice:1");
  expect((await stage.hello()).canRelease).toBe(true);
  const body = { name: "invoice:1", fence: String(lease.fence), reason: "web-1 hangs" };
  const answer = await stage.release(body);
  expect([answer.status, answer.json()]).toEqual([200, { done: true, by: "ada" }]);
  expect(lease.signal.reason).toMatchObject({ loss: { kind: "forced", by: "ada", reason: "web-1 hangs" } });
  expect((await stage.locks.inspect("invoice:1")).forced).toMatchObject([{ by: "ada", reason: "web-1 hangs" }]);
  // Once more: it is gone, and a successor would have another fence.
  const next = await stage.other("web:2").acquire("invoice:1");
  expect((await stage.release(body)).json()).toMatchObject({ done: false });
  next.assertHeld();
  expect(stage.audit).toMatchObject([
    {
      who: "ada",
      action: "release",
      outcome: "done",
      lock: "invoice:1",
      fence: String(lease.fence),
      reason: "web-1 hangs",
      address: "127.0.0.1",
    },
    { who: "ada", outcome: "gone" },
  ]);
  expect(stage.audit[0]!.at).toMatch(/^\d{4}-\d\d-\d\dT/);
});

test("it is read-only unless that is allowed", async () => {
  const stage = await new Stage().start();
  const lease = await stage.other("web:1").acquire("a");
  expect((await stage.hello()).canRelease).toBe(false);
  const answer = await stage.release({ name: "a", fence: String(lease.fence), reason: "x" });
  expect([answer.status, answer.json()["code"]]).toEqual([403, "read-only"]);
  lease.assertHeld();
  expect(stage.audit).toMatchObject([{ outcome: "refused", who: "ada" }]);
});

test("without the token of the user, or from another site, nothing is done", async () => {
  const stage = await new Stage().start({
    allowRelease: true,
    authorize: (request) => String(request.headers["x-user"] ?? "ada"),
  });
  const lease = await stage.other("web:1").acquire("a");
  const body = JSON.stringify({ name: "a", fence: String(lease.fence), reason: "x" });
  const { csrf } = await stage.hello();
  const wrong: readonly Record<string, string>[] = [
    {},
    { "x-holdfast-csrf": "" },
    { "x-holdfast-csrf": `${csrf.slice(0, -1)}${csrf.endsWith("A") ? "B" : "A"}` },
    { "x-holdfast-csrf": csrf, "x-user": "eve" },
    { "x-holdfast-csrf": csrf, "sec-fetch-site": "cross-site" },
    { "x-holdfast-csrf": csrf, "sec-fetch-site": "same-site" },
    { "x-holdfast-csrf": csrf, origin: "http://evil.example" },
    { "x-holdfast-csrf": csrf, origin: "null" },
  ];
  for (const headers of wrong) {
    const answer = await stage.ask("/release", { method: "POST", body, headers });
    expect([answer.status, answer.json()["code"]]).toEqual([403, "csrf"]);
  }
  for (const type of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]) {
    const headers = { "x-holdfast-csrf": csrf, "content-type": type };
    expect((await stage.ask("/release", { method: "POST", body, headers })).status).toBe(415);
  }
  expect((await stage.ask(`/release?name=a&fence=${lease.fence}&reason=x`)).status).toBe(405);
  lease.assertHeld();
  const headers = { "x-holdfast-csrf": csrf, "sec-fetch-site": "same-origin", origin: stage.origin };
  expect((await stage.ask("/release", { method: "POST", body, headers })).json()).toMatchObject({ done: true });
});

test.each([
  ["no reason", { name: "a", fence: "1" }, 400],
  ["a blank reason", { name: "a", fence: "1", reason: "  " }, 400],
  ["a reason that is too long", { name: "a", fence: "1", reason: "x".repeat(1001) }, 400],
  ["no fence", { name: "a", reason: "x" }, 400],
  ["a fence that is none", { name: "a", fence: "-1", reason: "x" }, 400],
  ["a fence that is a number", { name: "a", fence: 1, reason: "x" }, 400],
  ["a body that is too large", { name: "a".repeat(20_000), fence: "1", reason: "x" }, 413],
  ["a name that is none", { name: "", fence: "1", reason: "x" }, 400],
])("%s is refused", async (_, body, status) => {
  const stage = await new Stage().start({ allowRelease: true });
  expect((await stage.release(body)).status).toBe(status);
});

test("a body that is no JSON is refused", async () => {
  const stage = await new Stage().start({ allowRelease: true });
  for (const body of ["", "{", "[]", "null", '"x"', Buffer.from([0xff, 0xfe])])
    expect(
      (await stage.ask("/release", { method: "POST", body, headers: { "content-type": "application/json" } })).status,
    ).toBe(400);
});

test("under another name of the host nothing is served", async () => {
  const stage = await new Stage().start({ hosts: ["127.0.0.1", "localhost", "[::1]"] });
  for (const host of [
    "evil.example",
    "evil.example:80",
    "127.0.0.1.evil.example",
    "localhost.evil.example",
    "127.0.0.2",
  ])
    for (const path of ["/", "/console.js", "/hello", "/events", "/metrics"]) {
      const answer = await stage.ask(path, { headers: { host } });
      expect([host, path, answer.status, answer.json()["code"]]).toEqual([host, path, 421, "host"]);
    }
  for (const host of ["127.0.0.1", "LOCALHOST:9000", "[::1]:80"])
    expect((await stage.ask("/hello", { headers: { host } })).status).toBe(200);
});

test("each answer keeps its page to itself", async () => {
  const stage = await new Stage().start();
  for (const path of ["/", "/console.js", "/console.css", "/hello", "/nothing", "/metrics"]) {
    const { headers } = await stage.ask(path);
    expect(headers["content-security-policy"]).toMatch(/^default-src 'none'; script-src 'self'; style-src 'self';/);
    expect(headers["content-security-policy"]).not.toContain("unsafe");
    expect(headers).toMatchObject({
      "x-content-type-options": "nosniff",
      "referrer-policy": "no-referrer",
      "x-frame-options": "DENY",
    });
    expect(Object.keys(headers).filter((name) => name.startsWith("access-control"))).toEqual([]);
  }
  expect((await stage.ask("/hello")).headers["cache-control"]).toBe("no-store");
  const { headers } = await stage.ask("/console.js");
  expect((await stage.ask("/console.js", { headers: { "if-none-match": String(headers.etag) } })).status).toBe(304);
  expect((await stage.ask("/nothing")).status).toBe(404);
  expect((await stage.ask("/__proto__")).status).toBe(404);
  expect((await stage.ask("/hello", { method: "DELETE" })).headers.allow).toBe("GET");
  expect((await stage.ask("/", { method: "HEAD" })).text).toBe("");
});

test("the login: a wrong token is refused, the right one is a cookie that no script and no other site has", async () => {
  const stage = new Stage();
  const login = new Login("holdfast_console_1");
  const page = withLogin(stage.locks, { authorize: () => "me", audit: (entry) => stage.audit.push(entry) }, login);
  await stage.serve(page);
  expect(login.token).toMatch(/^[\w-]{43}$/);
  expect((await stage.ask("/")).status).toBe(200);
  for (const headers of [
    {},
    { cookie: "holdfast_console_1=x" },
    { authorization: "Bearer x" },
    { authorization: `Basic ${login.token}` },
  ] as Record<string, string>[]) {
    const answer = await stage.ask("/hello", { headers });
    expect([answer.status, answer.json()["code"]]).toEqual([401, "login"]);
    expect((await stage.ask("/metrics", { headers })).status).toBe(401);
    expect((await stage.ask("/events", { headers })).status).toBe(401);
  }
  const logIn = (token: unknown, headers = {}): ReturnType<typeof stage.ask> =>
    stage.ask("/login", { method: "POST", body: JSON.stringify({ token }), headers });
  for (const token of ["", "x", `${login.token}x`, login.token.slice(1), 7, null]) {
    const answer = await logIn(token);
    expect([answer.status, answer.headers["set-cookie"]]).toEqual([401, undefined]);
  }
  expect((await logIn(login.token, { "sec-fetch-site": "cross-site" })).status).toBe(403);
  const answer = await logIn(login.token);
  const [cookie = ""] = answer.headers["set-cookie"] ?? [];
  expect(cookie).toMatch(/^holdfast_console_1=[\w-]{43}; HttpOnly; SameSite=Strict; Path=\/$/);
  expect(cookie).not.toContain(login.token);
  const [pair = ""] = cookie.split(";");
  expect((await stage.ask("/hello", { headers: { cookie: `other=1; ${pair}` } })).json()).toMatchObject({ who: "me" });
  expect((await stage.ask("/metrics", { headers: { authorization: `Bearer ${login.token}` } })).status).toBe(200);
  expect(stage.audit.map(({ action, outcome }) => `${action} ${outcome}`)).toEqual([
    ...Array.from({ length: 6 }, () => "login refused"),
    "login done",
  ]);
  page.close();
});

test("consoles of other ports and machines have cookies of other names, and one that is started again the same", () => {
  const names = [cookieName("db-1", 8437), cookieName("db-2", 8437), cookieName("db-1", 8438)];
  expect(new Set(names).size).toBe(3);
  expect(cookieName("db-1", 8437)).toBe(names[0]);
  for (const name of names) expect(name).toMatch(/^holdfast_console_\w+$/);
});

test("what is not ours to show another site: no stream, and no page that it chooses", async () => {
  const stage = await new Stage().start();
  for (const headers of [{ "sec-fetch-site": "cross-site" }, { origin: "http://evil.example" }] as Record<
    string,
    string
  >[]) {
    const answer = await stage.ask("/events", { headers });
    expect([answer.status, answer.json()["code"]]).toEqual([403, "csrf"]);
  }
  const { id } = await (await Watcher.open(stage.origin)).hears("stream");
  const body = JSON.stringify({ stream: id, lock: "a" });
  const answer = await stage.ask("/watch", { method: "POST", body });
  expect([answer.status, answer.json()["code"]]).toEqual([403, "csrf"]);
});

test("a line of the audit is one line, and moves no cursor, whatever a name or a reason says", async () => {
  const written = vi.spyOn(process.stderr, "write").mockReturnValue(true);
  onTestFinished(() => written.mockRestore());
  const stage = await new Stage().start({ audit: undefined });
  await stage.release({ name: "a\u001b[2J\nb", fence: "1", reason: "\u009b2J\u202e\u2028x" });
  const lines = written.mock.calls.map(([text]) => String(text)).filter((text) => text.includes("holdfast/console"));
  expect(lines).toHaveLength(1);
  expect(lines[0]).toMatch(/^[ -~]+\n$/);
  expect(JSON.parse(lines[0]!)).toMatchObject({ lock: "a\u001b[2J\nb", reason: "\u009b2J\u202e\u2028x" });
});

test("GET metrics: the figures of this process and of the store, without names of locks", async () => {
  const stage = await new Stage().start();
  await stage.other("web:1").acquire("secret-name");
  void stage
    .other("web:2")
    .acquire("secret-name")
    .catch(() => {});
  await eventually("one waits", async () =>
    (await stage.locks.inspect("secret-name")).pending.length === 1 ? true : undefined,
  );
  const { headers, text } = await stage.ask("/metrics");
  expect(headers["content-type"]).toBe("text/plain; version=0.0.4; charset=utf-8");
  expect(text).toMatch(/^holdfast_held\{backend="memory",mode="exclusive"\} 1$/m);
  expect(text).toMatch(
    /^holdfast_store_up 1\n[^]*^holdfast_store_locks 1\n[^]*^holdfast_store_held 1\n[^]*^holdfast_store_waiting 1$/m,
  );
  expect(text).not.toContain("secret-name");
  stage.counts.failure = new Error("down");
  await eventually("it is asked again", async () =>
    (await stage.ask("/metrics")).text.includes("holdfast_store_up 0") ? true : undefined,
  );
});

test("GET metrics shares the figures that the app collects already", async () => {
  using metrics = collectMetrics({ template: () => "given" });
  const stage = await new Stage().start({ metrics });
  await (await stage.other("web:1").acquire("a")).release();
  expect((await stage.ask("/metrics")).text).toContain('template="given"');
});

test("an outcome shows its size and age, never its value", async () => {
  const stage = await new Stage().start();
  await stage.other("web:1").once("a", { keep: "1h" }, () => "the secret value");
  const watcher = await Watcher.open(stage.origin);
  const { id } = await watcher.hears("stream");
  const { csrf } = await stage.hello();
  await stage.ask("/watch", {
    method: "POST",
    body: JSON.stringify({ stream: id, lock: "a" }),
    headers: { "x-holdfast-csrf": csrf },
  });
  const { page } = await watcher.hears("lock", ({ page: { outcome } }) => outcome !== undefined);
  expect(page.outcome).toMatchObject({ holder: "web:1", bytes: expect.any(Number) as number });
  expect(page.outcome!.bytes).toBeGreaterThan(10);
  expect(JSON.stringify(watcher.heard)).not.toContain("the secret value");
});

test("a stream of another user cannot be given another lock to watch", async () => {
  const stage = await new Stage().start({ authorize: (request) => String(request.headers["x-user"] ?? "ada") });
  const watcher = await Watcher.open(stage.origin, { headers: { "x-user": "eve" } });
  const { id } = await watcher.hears("stream");
  const { csrf } = await stage.hello();
  const answer = await stage.ask("/watch", {
    method: "POST",
    body: JSON.stringify({ stream: id, lock: "a" }),
    headers: { "x-holdfast-csrf": csrf },
  });
  expect(answer.status).toBe(404);
});

test("after close() streams are over and nothing is served", async () => {
  const stage = new Stage();
  const page = createConsole(stage.locks, { authorize: () => "ada" });
  await stage.serve(page);
  const watcher = await Watcher.open(stage.origin);
  await watcher.hears("rows");
  page.close();
  await eventually("the stream ends", () => (watcher.response.complete ? true : undefined));
  expect((await stage.ask("/hello")).status).toBe(503);
});
