/**
 * By what figures are kept apart: the store, the mode, and the template of the lock's name, which only a function of the user's gives.
 * Names never are: they hold the ids of customers, and metrics would grow with them. Whatever that function returns, there are
 * at most so many of them.
 */
import { ArgumentError, got } from "../contract/argument-error.ts";
import { clipped, printable } from "../contract/foreign.ts";
import type { Mode } from "../contract/backend.ts";
import type { Guard } from "./telemetry.ts";

/** Of a lock's name, what is the same for all of its kind: `order:{id}`. `undefined`: it is not kept apart. */
export type Template = (name: string) => string | undefined;

const TEMPLATES_MAX = 100;
const TEMPLATE_LENGTH_MAX = 100;
export const GROUPS_MAX = 1000;
/** Where there are too many. */
export const OTHER = "other";

export interface TemplateOptions {
  /** Of a lock's name, what is the same for all of its kind, such as `order:{id}`. @default names are not kept apart */
  readonly template?: Template | undefined;
}

export function checkOptions<T extends TemplateOptions>(options: T): T {
  if (typeof options !== "object" || options === null)
    throw new ArgumentError(`Expected \`options\` to be an object, got ${got(options)}`);
  const { template } = options;
  if (template === undefined || typeof template === "function") return options;
  throw new ArgumentError(
    `Expected \`template\` to be a function from a lock's name to a text such as order:{id}, got ${got(template)}`,
  );
}

export class Templates {
  readonly #template: Template | undefined;
  readonly #guard: Guard;
  readonly #known: Set<string> = new Set();

  constructor(template: Template | undefined, guard: Guard) {
    this.#template = template;
    this.#guard = guard;
  }

  /** Empty: it is not kept apart. */
  of(name: string): string {
    if (this.#template === undefined) return "";
    const given: unknown = this.#guard.call(() => this.#template!(name));
    if (typeof given !== "string" || given === "") return "";
    // Two texts that differ in half a character would become one when they are written, and two series of one name are refused.
    const text = printable(clipped(given, TEMPLATE_LENGTH_MAX));
    if (this.#known.has(text)) return text;
    if (this.#known.size >= TEMPLATES_MAX) {
      this.#guard.warn(
        `\`template\` has returned more than ${TEMPLATES_MAX} texts, and the rest count as "${OTHER}". ` +
          "It should return what is the same for many locks, such as order:{id}.",
      );
      return OTHER;
    }
    this.#known.add(text);
    return text;
  }
}

/** Locks that count together. `S`: what is kept for each outcome. */
export class Group<S> {
  readonly backend: string;
  readonly mode: Mode;
  readonly template: string;
  held = 0;
  waiting = 0;
  readonly acquires: Map<string, S> = new Map();
  readonly holds: Map<string, S> = new Map();

  constructor(backend: string, mode: Mode, template: string) {
    this.backend = backend;
    this.mode = mode;
    this.template = template;
  }
}

export class Groups<S> {
  readonly #templates: Templates;
  readonly #groups: Map<string, Group<S>> = new Map();
  #last: Group<S> | undefined;

  constructor(templates: Templates) {
    this.#templates = templates;
  }

  of({ backend, mode, name }: { readonly backend: string; readonly mode: Mode; readonly name: string }): Group<S> {
    const template = this.#templates.of(name);
    const last = this.#last;
    // Most programs use one store, in one mode.
    if (last !== undefined && last.backend === backend && last.mode === mode && last.template === template) return last;
    return (this.#last = this.#find(backend, mode, template));
  }

  all(): Iterable<Group<S>> {
    return this.#groups.values();
  }

  #find(backend: string, mode: Mode, template: string): Group<S> {
    const key = JSON.stringify([backend, mode, template]);
    const found = this.#groups.get(key);
    if (found !== undefined) return found;
    if (this.#groups.size >= GROUPS_MAX && backend !== OTHER) return this.#find(OTHER, mode, OTHER);
    const group = new Group<S>(backend, mode, template);
    this.#groups.set(key, group);
    return group;
  }
}
