/** The routes: each request is checked, authorized and answered here. Nothing of it reaches the app that it is mounted in. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { LockError, messageOf } from "../contract/errors.ts";
import { isArgumentError } from "../contract/argument-error.ts";
import { REASON_MAX } from "../contract/foreign.ts";
import { warn } from "../contract/warning.ts";
import type { Locks } from "../core/api.ts";
import { clean } from "../telemetry/clean.ts";
import { collectMetrics, type Metrics } from "../telemetry/prometheus/metrics.ts";
import { Audit } from "./audit.ts";
import { EVERY_MS, Feed } from "./feed.ts";
import { PAGE, SCRIPT, STYLE, TAG } from "./generated/page.ts";
import { Guard } from "./guard.ts";
import { type GivenRequest, readBody, RefusedError, routeOf, send, sendJson, setHeaders } from "./http.ts";
import type { Login } from "./login.ts";
import type { CheckedOptions } from "./options.ts";
import { storeText } from "./store-metrics.ts";
import { Viewer } from "./viewers.ts";
import type { Hello, Refusal } from "./wire.ts";

/** A handler for Node's `http`, and for what takes such a one. */
export interface Console extends Disposable {
  (request: IncomingMessage, response: ServerResponse): void;
  /** Ends the streams of all pages. The locks stay open: they are the app's. */
  close(): void;
}

type Route = (request: GivenRequest, response: ServerResponse) => Promise<void> | void;

export class Handler {
  readonly #locks: Locks;
  readonly #options: CheckedOptions;
  readonly #login: Login | undefined;
  readonly #guard: Guard;
  readonly #audit: Audit;
  readonly #feed: Feed;
  readonly #metrics: Pick<Metrics, "text" | "contentType">;
  readonly #end: () => void;
  #isClosed = false;
  readonly #routes: Readonly<Record<string, Readonly<Record<string, Route>>>> = {
    "": { GET: (request, response) => this.#page(request, response) },
    "console.js": { GET: (request, response) => asset(request, response, "text/javascript", SCRIPT) },
    "console.css": { GET: (request, response) => asset(request, response, "text/css", STYLE) },
    hello: { GET: (request, response) => this.#hello(request, response) },
    events: { GET: (request, response) => this.#events(request, response) },
    metrics: { GET: (request, response) => this.#answerMetrics(request, response) },
    watch: { POST: (request, response) => this.#watch(request, response) },
    release: { POST: (request, response) => this.#release(request, response) },
    login: { POST: (request, response) => this.#logIn(request, response) },
  };

  constructor(locks: Locks, options: CheckedOptions, login?: Login) {
    this.#locks = locks;
    this.#options = options;
    this.#login = login;
    this.#guard = new Guard(options);
    this.#audit = new Audit(options);
    this.#feed = new Feed(locks, options);
    const own = options.metrics === undefined ? collectMetrics() : undefined;
    this.#metrics = options.metrics ?? own!;
    this.#end = () => own?.end();
  }

  /** Never rejects: what goes wrong is an answer. */
  async handle(request: GivenRequest, response: ServerResponse): Promise<void> {
    try {
      setHeaders(response);
      if (this.#isClosed) throw new RefusedError(503, "busy", "The console is closed.");
      this.#guard.checkHost(request);
      const route = routeOf(request, this.#options.path);
      if (route === undefined) return redirect(request, response);
      const methods = Object.hasOwn(this.#routes, route) ? this.#routes[route]! : undefined;
      if (methods === undefined) throw new RefusedError(404, "gone", "There is nothing here.");
      const method = request.method === "HEAD" ? "GET" : (request.method ?? "");
      const answer = Object.hasOwn(methods, method) ? methods[method] : undefined;
      if (answer === undefined) {
        response.setHeader("allow", Object.keys(methods).join(", "));
        throw new RefusedError(405, "bad-request", "This is not how to ask for it.");
      }
      await answer(request, response);
    } catch (error) {
      refuse(response, error);
    }
  }

  close(): void {
    this.#isClosed = true;
    this.#feed.end();
    this.#end();
  }

  /** With a login the page is there for all, so that it can ask for the token; it has nothing in it but itself. */
  async #page(request: GivenRequest, response: ServerResponse): Promise<void> {
    const isAllowed = this.#login !== undefined || (await this.#mayRead(request));
    send(response, isAllowed ? 200 : 403, "text/html; charset=utf-8", PAGE);
  }

  async #mayRead(request: GivenRequest): Promise<boolean> {
    return await this.#guard.who(request, { kind: "read" }).then(
      () => true,
      (error: unknown) => {
        if (error instanceof RefusedError) return false;
        throw error;
      },
    );
  }

  /** With a login, who is not known has to log in first. */
  async #who(request: GivenRequest, action: Parameters<Guard["who"]>[1]): Promise<string> {
    if (this.#login?.isKnown(request) === false)
      throw new RefusedError(
        401,
        "login",
        "Open the address that holdfast console has printed, or paste its token here.",
      );
    return await this.#guard.who(request, action);
  }

  async #hello(request: GivenRequest, response: ServerResponse): Promise<void> {
    const { title, traceUrl, allowRelease } = this.#options;
    const who = await this.#who(request, { kind: "read" });
    const canRelease =
      allowRelease &&
      (await this.#guard.who(request, { kind: "release" }).then(
        () => true,
        () => false,
      ));
    const hello: Hello = { who, csrf: this.#guard.csrfOf(who), canRelease, title, traceUrl, everyMs: EVERY_MS };
    sendJson(response, 200, hello);
  }

  async #events(request: GivenRequest, response: ServerResponse): Promise<void> {
    const who = await this.#who(request, { kind: "read" });
    this.#guard.checkSameSite(request);
    if (this.#feed.viewers >= this.#options.maxViewers) {
      response.setHeader("retry-after", "10");
      throw new RefusedError(503, "busy", "Too many pages watch already. Close some, or raise `maxViewers`.");
    }
    if (request.method === "HEAD") return void response.writeHead(200).end();
    // It may be gone since it was authorized, and would never be seen to go.
    if (response.destroyed) return;
    const viewer = new Viewer(response, who, this.#options.clock.now());
    response.on("close", () => this.#feed.remove(viewer));
    this.#feed.add(viewer);
  }

  async #watch(request: GivenRequest, response: ServerResponse): Promise<void> {
    const who = await this.#who(request, { kind: "read" });
    this.#guard.checkCsrf(request, who);
    const { stream, lock } = await readBody(request);
    const viewer = typeof stream === "string" ? this.#feed.find(stream) : undefined;
    if (viewer === undefined || viewer.who !== who)
      throw new RefusedError(404, "gone", "The stream is over. Load the page again.");
    if (lock !== null && (typeof lock !== "string" || lock === ""))
      throw new RefusedError(400, "bad-request", "Expected the name of a lock.");
    await this.#feed.show(viewer, lock ?? undefined);
    sendJson(response, 200, {});
  }

  async #release(request: GivenRequest, response: ServerResponse): Promise<void> {
    const { name, fence, reason } = await readBody(request);
    if (typeof name !== "string" || typeof fence !== "string" || !/^\d{1,20}$/.test(fence))
      throw new RefusedError(400, "bad-request", "Expected the name of a lock, and the fence of its lease.");
    if (typeof reason !== "string" || reason.trim() === "" || reason.length > REASON_MAX)
      throw new RefusedError(400, "bad-request", `Expected a reason of 1 to ${REASON_MAX} characters.`);
    const facts = { action: "release", lock: name, fence, reason } as const;
    let who = "";
    try {
      const action = { kind: "release", lock: name, fence: BigInt(fence), reason } as const;
      who = await this.#who(request, action);
      this.#guard.checkCsrf(request, who);
      if (!this.#options.allowRelease)
        throw new RefusedError(403, "read-only", "This console is read-only: start it with --allow-release.");
      const done = await this.#locks.forceRelease(name, { fence: action.fence, reason, by: who });
      this.#audit.write(request, { ...facts, who, outcome: done ? "done" : "gone" });
      sendJson(response, 200, { done, by: who });
    } catch (error) {
      const isRefused = error instanceof RefusedError;
      const why = clean(messageOf(error));
      this.#audit.write(request, { ...facts, who, outcome: isRefused ? "refused" : "failed", why });
      throw error;
    }
  }

  async #logIn(request: GivenRequest, response: ServerResponse): Promise<void> {
    const login = this.#login;
    if (login === undefined) throw new RefusedError(404, "gone", "The app that this is mounted in has the login.");
    this.#guard.checkSameSite(request);
    try {
      await login.accept(request, response);
    } catch (error) {
      this.#audit.write(request, { action: "login", who: "", outcome: "refused", why: clean(messageOf(error)) });
      throw error;
    }
    this.#audit.write(request, { action: "login", who: "", outcome: "done" });
    sendJson(response, 200, {});
  }

  async #answerMetrics(request: GivenRequest, response: ServerResponse): Promise<void> {
    await this.#who(request, { kind: "metrics" });
    const text = this.#metrics.text() + storeText(await this.#feed.fresh());
    send(response, 200, this.#metrics.contentType, text);
  }
}

/** The files are the same until the package is another. */
function asset(request: GivenRequest, response: ServerResponse, type: string, text: string): void {
  response.setHeader("cache-control", "no-cache");
  response.setHeader("etag", TAG);
  if (request.headers["if-none-match"] === TAG) response.writeHead(304).end();
  else send(response, 200, `${type}; charset=utf-8`, text);
}

/** To the same with a slash, because the page names its files from there. */
function redirect(request: GivenRequest, response: ServerResponse): void {
  const [path = ""] = (request.originalUrl ?? request.url ?? "").split("?", 1);
  response.writeHead(308, { location: `./${path.slice(path.lastIndexOf("/") + 1)}/` }).end();
}

function refuse(response: ServerResponse, error: unknown): void {
  if (response.headersSent) return void response.destroy();
  const { status, code, message } = refusalOf(error);
  const refusal: Refusal = { code, message };
  sendJson(response, status, refusal);
}

function refusalOf(error: unknown): { status: number } & Refusal {
  if (error instanceof RefusedError) return error;
  const message = clean(messageOf(error));
  if (error instanceof LockError) return { status: 502, code: "store", message };
  if (isArgumentError(error)) return { status: 400, code: "bad-request", message };
  // A fault of `authorize`, or of ours: the app's log has it, the page has not.
  warn("HOLDFAST_CONSOLE", `holdfast/console: ${message}`);
  return { status: 500, code: "store", message: "The console failed. The log of its process says why." };
}
