/** The page: logs in, listens to the one stream, and shows what it hears. */
import { h, replace, setText } from "./dom.ts";
import { plural, visible } from "./format.ts";
import { isInUse, watchPresses } from "./in-use.ts";
import { lockView } from "./lock-view.ts";
import { Model, type Only } from "./model.ts";
import { overviewView } from "./overview-view.ts";
import { askRelease } from "./release-dialog.ts";
import { ask, type Heard, listen, post, RefusedError } from "./stream.ts";
import { Table } from "./table.ts";
import type { Hello } from "../wire.ts";
import { stateView } from "./states.ts";
import { Status } from "./status.ts";
import { Turn } from "./turn.ts";

const MOVE_MS = 250;
const RETRY_MS = 2000;
const ONLY: readonly (readonly [Only, string])[] = [
  ["all", "All"],
  ["waited", "Waited for"],
  ["trouble", "In trouble"],
];

type Route = { readonly view: "locks" | "overview" } | { readonly view: "lock"; readonly name: string };

const model = new Model();
const turn = new Turn();
const lockState = { spanMs: 300_000 };
let route: Route = { view: "locks" };
let stream: string | undefined;
let isDirty = false;
let shown = "";
let refused: RefusedError | undefined;
let isLoggingIn = false;

const table = new Table(
  model,
  (name) => (location.hash = `#/lock/${encodeURIComponent(name)}`),
  () => changed(true),
);
const store = h("span", { class: "store" });
const mode = h("span", { class: "access" });
const status = new Status(model);
const filter = h("input", {
  type: "search",
  class: "filter",
  placeholder: "Filter by name, holder, fence or meta",
  "aria-label": "Filter locks",
  autocomplete: "off",
  spellcheck: "false",
});
const total = h("span", { class: "total", "aria-live": "polite" });
const navLinks = { locks: h("a", { href: "#/" }, "Locks"), overview: h("a", { href: "#/overview" }, "Overview") };
const onlyButtons = ONLY.map(([only, label]) =>
  h("button", { type: "button", "aria-pressed": String(only === "all"), onclick: () => setOnly(only) }, label),
);
const groupButton = h("button", { type: "button", "aria-pressed": "false", onclick: toggleGroups }, "Group by prefix");
const toolbar = h(
  "div",
  { class: "toolbar" },
  filter,
  h("div", { class: "segmented", role: "group", "aria-label": "Which locks" }, ...onlyButtons),
  h("div", { class: "segmented" }, groupButton),
  total,
);
const state = h("div", { class: "state", hidden: true });
const locksView = h("div", { class: "view locks" }, h("h1", { class: "sr" }, "Locks"), toolbar, table.element, state);
const otherView = h("div", { class: "view other", tabindex: -1 });
const main = h("main", {}, locksView, otherView);

document.body.append(
  h(
    "header",
    { class: "top" },
    h("span", { class: "brand" }, "Holdfast"),
    store,
    mode,
    h("nav", { "aria-label": "Views" }, navLinks.locks, navLinks.overview),
    status.element,
  ),
  status.banner,
  main,
);

filter.addEventListener("input", () => {
  model.filter = filter.value;
  table.top();
  changed(true);
});
addEventListener("hashchange", () => follow());
addEventListener("keydown", (event) => {
  const isTyping = event.target instanceof HTMLInputElement || event.target instanceof HTMLTextAreaElement;
  if (event.key === "Escape" && event.target === filter) {
    filter.value = model.filter = "";
    table.focus();
    changed(true);
  } else if (isTyping || event.metaKey || event.ctrlKey || event.altKey || document.querySelector("dialog") !== null)
    return;
  else if (event.key === "/") {
    event.preventDefault();
    goToFilter();
  } else if (event.key === "Escape" && route.view !== "locks") location.hash = "#/";
});
watchPresses(() => changed(false));
setInterval(move, MOVE_MS);
new ResizeObserver(() => draw()).observe(main);
follow();
void start();

function setOnly(only: Only): void {
  model.only = only;
  for (const [at, [one]] of ONLY.entries()) onlyButtons[at]!.setAttribute("aria-pressed", String(one === only));
  changed(true);
}

function toggleGroups(): void {
  model.isGrouped = !model.isGrouped;
  groupButton.setAttribute("aria-pressed", String(model.isGrouped));
  table.top();
  changed(true);
}

function routeOf(hash: string): Route {
  if (hash === "#/overview") return { view: "overview" };
  const [, name] = /^#\/lock\/(.+)$/.exec(hash) ?? [];
  try {
    if (name !== undefined) return { view: "lock", name: decodeURIComponent(name) };
  } catch {
    // Not an address of this page.
  }
  return { view: "locks" };
}

/** At once, not in the next frame or when the address has changed: what is typed next must be in it. */
function goToFilter(): void {
  if (route.view !== "locks") {
    // Unlike a new hash, it tells of no change later.
    history.pushState(null, "", "#/");
    follow();
    draw();
  }
  filter.focus();
}

function follow(): void {
  if (location.hash.startsWith("#token=")) return;
  route = routeOf(location.hash);
  model.page = undefined;
  const shown = route.view === "lock" ? visible(route.name) : route.view === "overview" ? "Overview" : "Locks";
  document.title = `${shown} · Holdfast`;
  for (const [view, link] of Object.entries(navLinks)) {
    if (view === route.view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  void watch();
  changed(true);
  if (route.view !== "locks") otherView.focus({ preventScroll: true });
  else if (document.activeElement !== filter) table.focus();
  otherView.scrollTop = 0;
}

/** Says which lock's page is open here. */
async function watch(): Promise<void> {
  if (stream === undefined || model.hello === undefined) return;
  const lock = route.view === "lock" ? route.name : null;
  // A stream that is over is opened again, and says it anew.
  await post("watch", { stream, lock }, model.hello.csrf).catch(() => {});
}

async function start(): Promise<void> {
  const [, token] = /^#token=([\w-]+)$/.exec(location.hash) ?? [];
  // The token is gone from the address before anything else is asked for.
  if (token !== undefined) history.replaceState(null, "", "#/");
  const wrong = token === undefined ? undefined : await logIn(token);
  for (;;) {
    const mayListen = await turn.next();
    try {
      refused = undefined;
      model.hello = await ask<Hello>("hello");
      setText(store, visible(model.hello.title));
      await listen(hear, mayListen);
    } catch (error) {
      if (error instanceof RefusedError) {
        // What was wrong with the token says more than that one is needed.
        refused = error.code === "login" ? (wrong ?? error) : error;
        model.connection = error.code === "busy" ? "busy" : "lost";
      } else model.connection = mayListen.aborted ? "connecting" : "lost";
    }
    if (refused === undefined && model.connection === "live") model.connection = "connecting";
    stream = undefined;
    changed(false);
    if (refused?.code === "login" || refused?.code === "forbidden") return;
    await new Promise((resolve) => setTimeout(resolve, model.connection === "connecting" ? 0 : RETRY_MS));
  }
}

/** Resolves to why it was refused. */
async function logIn(token: string): Promise<RefusedError | undefined> {
  try {
    await post("login", { token });
  } catch (error) {
    if (error instanceof RefusedError) return error;
  }
  return undefined;
}

/** The form stays as it is until there is an answer: what is typed into it meanwhile is not lost. */
async function submitted(token: string): Promise<void> {
  if (isLoggingIn) return;
  isLoggingIn = true;
  refused = await logIn(token);
  isLoggingIn = false;
  changed(false);
  if (refused === undefined) void start();
}

function hear({ name, message }: Heard): void {
  if (name === "stream") {
    stream = message.id;
    void watch();
  } else {
    model.heardAt(message.nowMs);
    if (name === "rows") model.takeRows(message);
    else if (name === "overview") model.takeOverview(message);
    else if (route.view === "lock" && message.page.name === route.name) model.page = message.page;
  }
  model.connection = "live";
  // From before it was parsed.
  performance.measure("holdfast:hear", "hear");
  changed(false);
}

/** However much is heard at once, it is drawn once. */
function changed(isOther: boolean): void {
  model.isArranged &&= !isOther;
  if (isDirty) return;
  isDirty = true;
  requestAnimationFrame(() => {
    isDirty = false;
    performance.mark("draw");
    draw();
    performance.measure("holdfast:draw", "draw");
  });
}

function draw(): void {
  model.arrange();
  status.draw(refused);
  setText(mode, model.hello === undefined || model.hello.canRelease ? "" : "read-only");
  main.classList.toggle("stale", status.isStale);
  const special = stateView(model, refused, (token) => void submitted(token));
  const isLocks = route.view === "locks" || refused !== undefined;
  locksView.hidden = !isLocks;
  otherView.hidden = isLocks;
  if (!isLocks) return drawOther();
  state.hidden = special === undefined;
  table.element.hidden = special !== undefined;
  toolbar.hidden = refused !== undefined;
  if (special === undefined) table.render();
  else if (state.firstElementChild?.getAttribute("data-state") !== special.getAttribute("data-state"))
    state.replaceChildren(special);
  const all = plural(model.rows.size, "lock");
  const isAll = model.shown === model.rows.size;
  setText(total, model.hasRows ? (isAll ? all : `${model.shown.toLocaleString("en-US")} of ${all}`) : "");
}

function drawOther(): void {
  if (isInUse(otherView) && shown === location.hash) return;
  shown = location.hash;
  if (route.view === "overview") replace(otherView, ...overviewView(model));
  if (route.view !== "lock") return;
  const { name } = route;
  const actions = {
    redraw: () => changed(false),
    release: (row: Parameters<typeof askRelease>[1], holder: Parameters<typeof askRelease>[2]) =>
      askRelease(name, row, holder, model.hello),
  };
  replace(otherView, ...lockView(model, name, lockState, actions, otherView.clientWidth - 82));
}

/** Ages and bars go on between two looks. */
function move(): void {
  if (document.hidden) return;
  if (route.view === "locks") table.move();
  else draw();
}
