/** What is shown in the place of the table: nothing yet, nothing held, nothing found, no permission, no room. */
import { h } from "./dom.ts";
import type { Model } from "./model.ts";
import type { RefusedError } from "./stream.ts";

export function stateView(
  model: Model,
  refused: RefusedError | undefined,
  logIn: (token: string) => void,
): HTMLElement | undefined {
  if (refused?.code === "login") return loginForm(refused, logIn);
  if (refused?.code === "forbidden")
    return card(
      "forbidden",
      "No permission",
      "You are not allowed to see these locks, or no longer logged in. Log in to the app, or ask those who run it.",
      h("button", { type: "button", onclick: () => location.reload() }, "Try again"),
    );
  if (refused?.code === "busy") return card("busy", "Too many viewers", `${refused.message} Trying again …`);
  if (refused !== undefined) return card("refused", "Not served", refused.message);
  if (!model.hasRows) {
    if (model.overview?.store.state === "down")
      return card("down", "The store does not answer", "Locks are shown here as soon as it does.");
    return card("loading", "Asking the store …", "");
  }
  if (model.rows.size === 0) {
    const demo = h("pre", {}, h("code", {}, "holdfast run hello -- sleep 30"));
    return card("empty", "No lock is held or waited for", "Take one from another terminal, and it appears here:", demo);
  }
  if (model.lines.length === 0) return card("none", "No lock matches", "Change the filter, or press Escape in it.");
  return undefined;
}

function card(name: string, title: string, text: string, ...more: readonly HTMLElement[]): HTMLElement {
  return h(
    "div",
    { class: "state-card", "data-state": name },
    h("h2", {}, title),
    text === "" ? null : h("p", {}, text),
    ...more,
  );
}

/** The token can be pasted, too: an address that was printed on another machine cannot be clicked. */
function loginForm(refused: RefusedError, logIn: (token: string) => void): HTMLElement {
  const input = h("input", { id: "token", type: "password", autocomplete: "off", required: true });
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    const text = input.value.trim();
    logIn(/token=([\w-]+)/.exec(text)?.[1] ?? text);
  };
  const form = h(
    "form",
    { onsubmit: submit },
    h("label", { for: "token" }, "Token"),
    input,
    h("button", { type: "submit" }, "Log in"),
  );
  return card(`login ${refused.message}`, "Log in", refused.message, form);
}
