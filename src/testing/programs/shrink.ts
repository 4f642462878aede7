/** Makes a failing program small: cuts out and simplifies whatever is not needed for it to break the same rule. */
import type { Finding, Program, Rule } from "./program.ts";

type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

/** Does the program break a rule, and which? */
export type Trial = (program: Program) => Promise<readonly Finding[]>;

export interface Shrunk {
  readonly program: Program;
  readonly tries: number;
}

/** The smallest program found that breaks `rule`, within so many tries. */
export async function shrinkProgram(program: Program, rule: Rule, trial: Trial, triesMost = 3000): Promise<Shrunk> {
  let best = program;
  let tries = 0;
  for (let smaller = true; smaller && tries < triesMost;) {
    smaller = false;
    for (const candidate of simpler(best)) {
      if (++tries > triesMost) break;
      const [first] = await trial(candidate);
      if (first?.rule !== rule) continue;
      best = candidate;
      smaller = true;
      break;
    }
  }
  return { program: best, tries };
}

/** Programs that are a little simpler, the greatest savings first. */
function* simpler(program: Program): Generator<Program> {
  const json = program as unknown as Json;
  const edits = [...cuts(json), ...smaller(json)].toSorted((a, b) => b.saved - a.saved);
  const seen = new Set<string>();
  for (const { make } of edits) {
    const made = tidy(make() as unknown as Program);
    const text = JSON.stringify(made);
    if (made.threads.length === 0 || text.includes('"lock":[]') || seen.has(text)) continue;
    seen.add(text);
    yield made;
  }
}

interface Edit {
  readonly saved: number;
  readonly make: () => Json;
}

/** Leaves out elements of lists and fields that may be absent, and puts steps in the place of what is around them. */
function cuts(json: Json): Edit[] {
  if (Array.isArray(json)) {
    const list = json as readonly Json[];
    return list.flatMap((element, at): Edit[] => {
      const put = (put: readonly Json[]): Json => [...list.slice(0, at), ...put, ...list.slice(at + 1)];
      const inner = innerSteps(element);
      return [
        { saved: size(element), make: () => put([]) },
        ...(inner.length > 0 ? [{ saved: 3, make: () => put(inner) }] : []),
        ...cuts(element).map(({ saved, make }) => ({ saved, make: () => put([make()]) })),
      ];
    });
  }
  if (!isObject(json)) return [];
  return Object.entries(json).flatMap(([key, value]): Edit[] => [
    ...(OPTIONAL.has(key) ? [{ saved: size(value), make: () => without(json, key) }] : []),
    ...cuts(value).map(({ saved, make }) => ({ saved, make: () => ({ ...json, [key]: make() }) })),
  ]);
}

/** Makes numbers smaller and rounder, groups single, and clients fewer. */
function smaller(json: Json): Edit[] {
  if (Array.isArray(json)) {
    const list = json as readonly Json[];
    return list.flatMap((element, at) =>
      smaller(element).map(({ saved, make }) => ({ saved, make: () => list.with(at, make()) })),
    );
  }
  if (!isObject(json)) return [];
  return Object.entries(json).flatMap(([key, value]): Edit[] => {
    const put = (value: Json): Edit => ({ saved: 0.5, make: () => ({ ...json, [key]: value }) });
    const simple: Json[] = [];
    if (key === "client" && typeof value === "number" && value > 0) simple.push(value - 1);
    if (key === "ms" || key === "nth" || key === "requestMs" || key === "replyMs" || key === "times")
      simple.push(...less(value, key === "nth" ? 1 : 0));
    if (key === "seed" || key === "slot" || key === "signal") simple.push(...less(value, 0).slice(0, 1));
    if (key === "lock" && Array.isArray(value)) simple.push(...(value as string[]));
    if (key === "lock" && value === "y") simple.push("x");
    if (key === "do" && (value === "pause" || value === "block" || value === "acquire")) {
      simple.push(value === "acquire" ? "try" : "sleep");
    }
    return [
      ...simple.map(put),
      ...smaller(value).map(({ saved, make }) => ({ saved, make: () => ({ ...json, [key]: make() }) })),
    ];
  });
}

const OPTIONAL = new Set([
  "with",
  "loose",
  "faults",
  "without",
  "run",
  "lagMs",
  "force",
  "grace",
  "times",
  "ttl",
  "wait",
  "mode",
  "renew",
  "maxHold",
  "minHold",
  "lockDelay",
  "signal",
  "slot",
  "done",
]);

/** `signal` is optional for a call and not for "abort": a program must stay one. */
function without(json: { readonly [key: string]: Json }, key: string): Json {
  if (key === "signal" && json["do"] === "abort") return { do: "sleep", ms: 0 };
  const { [key]: _, ...rest } = json;
  return rest;
}

function less(value: Json, least: number): number[] {
  if (typeof value !== "number" || value <= least) return [];
  return [...new Set([least, Math.floor(value / 2), Math.floor((value * 9) / 10)])].filter(
    (smaller) => smaller >= least && smaller < value,
  );
}

/** The steps inside a step. */
function innerSteps(json: Json): readonly Json[] {
  if (!isObject(json) || json["do"] === undefined) return [];
  const { steps, branches } = json;
  if (Array.isArray(branches)) return (branches as readonly Json[]).flat() as readonly Json[];
  return Array.isArray(steps) ? (steps as readonly Json[]) : [];
}

/** No options, no list: no mention of them. */
function tidy(program: Program): Program {
  const threads = program.threads.filter(({ steps }) => steps.length > 0);
  const clients = [...new Set(threads.map(({ client }) => client))].toSorted((a, b) => a - b);
  // Numbers without a gap; faults of clients that are gone do not matter.
  if (clients.some((client, at) => client !== at) && (program.faults ?? []).length === 0) {
    return { ...program, threads: threads.map(({ client, steps }) => ({ client: clients.indexOf(client), steps })) };
  }
  return { ...program, threads };
}

function size(json: Json): number {
  return JSON.stringify(json).length;
}

function isObject(json: Json): json is { readonly [key: string]: Json } {
  return typeof json === "object" && json !== null && !Array.isArray(json);
}
