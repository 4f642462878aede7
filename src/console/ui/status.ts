/** What the page says of its connection and of the store: a word at the top, and a banner while something is down. */
import { h, setText } from "./dom.ts";
import { duration, visible } from "./format.ts";
import type { Model } from "./model.ts";
import type { RefusedError } from "./stream.ts";

export class Status {
  readonly element: HTMLElement = h("span", { class: "status", role: "status" });
  readonly banner: HTMLElement = h("div", { class: "banner", role: "alert", hidden: true });
  /** What is shown may be old. */
  isStale = false;
  readonly #model: Model;

  constructor(model: Model) {
    this.#model = model;
  }

  draw(refused: RefusedError | undefined): void {
    const { overview, connection } = this.#model;
    const down = overview?.store.state === "down" ? overview.store : undefined;
    const [words, look] = this.#words(refused, down !== undefined);
    setText(this.element, words);
    this.element.className = `status ${look}`;
    const isLost = connection === "lost" && refused === undefined;
    this.isStale = isLost || down !== undefined;
    this.banner.hidden = !this.isStale || (refused !== undefined && refused.code !== "busy");
    if (this.banner.hidden) return;
    const fact = isLost
      ? "The connection to the console is lost. Trying again …"
      : `The store does not answer: ${visible(down?.error ?? "")}`;
    setText(this.banner, fact + this.#age());
  }

  #age(): string {
    const { answeredMs } = this.#model.overview?.store ?? {};
    if (answeredMs === undefined) return "";
    const seconds = Math.floor((this.#model.now() - answeredMs) / 1000);
    return ` What is shown is ${duration(seconds * 1000).replace(".0 s", " s")} old.`;
  }

  #words(refused: RefusedError | undefined, isDown: boolean): readonly [words: string, look: string] {
    const { connection, overview } = this.#model;
    if (refused?.code === "login") return ["not logged in", ""];
    if (refused?.code === "forbidden") return ["no permission", "warn"];
    if (refused?.code === "busy") return ["no room", "warn"];
    if (connection === "connecting") return ["connecting", ""];
    if (connection !== "live") return ["no connection", "warn"];
    if (isDown) return ["store down", "bad"];
    return overview?.store.answeredMs === undefined ? ["asking", ""] : ["live", "ok"];
  }
}
