/**
 * Puts the columns of a wire.ts into Lua: the scripts name what they read and write, and the build knows where it is.
 *
 *   RECORD.till                              → 1, 13                    for string.sub()
 *   RECORD.till.from  .to  .width            → 1  13  13                sums of them are added up
 *   RECORD.since.zero, STATE.whole, .width   → '0000000000000'; 1, 30; 30
 *   FIELD.holder  MODE.shared.byte  LIMIT.fence.text                    constants: as they are, as a byte, as a text
 *   RECORD.till.format                       → '%013.0f'                for string.format()
 *   last, death = match(s, STATE.pattern{})  → match(s, '^(%d+) (%d+)$')
 *   STATE.text{ last = digits(n), death = d } → string.format('%016.0f ', n) .. d
 *   RECORD.replace(record, till, t)          → t .. string.sub(record, 14)
 *   REFUSAL.reply{ place = 0, ahead = 5 }    → { 0, 5 }
 *
 * A pattern captures what stands on the left, in the order of the columns; `x_at` is where column x begins. Between the braces a column may be
 * given a pattern of its own, or another variable's name: { limit = '1', till = first }. In a text, digits(n) is a number with the
 * column's zeros, and small(n) one that is less than 2^31. `.exact{}` also checks widths, and `.start{}` lets anything follow.
 *
 * `--- @needs STATE.last.from = 1` stops the build where the code below relies on it.
 */

/** @returns a function that expands Lua code without comments, and throws for a name that is not in `wire` */
export function namesOf(wire) {
  const known = Object.keys(wire).filter((name) => /^[A-Z_]+$/.test(name));
  return (code) => (known.length === 0 ? code : expand(code, wire, known.join("|")));
}

function expand(code, wire, names) {
  const macro = new RegExp(`\\b(${names})\\.(pattern|exact|start|text|reply|replace)([({])`);
  for (let found = macro.exec(code); found !== null; found = macro.exec(code)) {
    const [start, name, kind, open] = found;
    const from = found.index;
    const end = closing(code, from + start.length - 1);
    const inside = code.slice(from + start.length, end);
    const [before, after] = [code.slice(0, from), code.slice(end + 1)];
    if ((open === "(") !== (kind === "replace")) throw new Error(`${start} has the wrong bracket`);
    if (kind === "pattern" || kind === "exact" || kind === "start") {
      code = pattern(name, wire[name], kind, fields(inside), before, wire) + after;
    } else if (kind === "text") code = before + text(name, wire[name], fields(inside), wire) + after;
    else if (kind === "reply") code = before + reply(name, wire[name], fields(inside)) + after;
    else code = before + replaced(name, wire[name], split(inside), wire) + after;
  }
  const atom = `\\b(?:${names})\\.\\w+(?:\\.\\w+)?`;
  const sum = new RegExp(
    `${atom}(?: [+-] (?:${atom}|\\d+\\b))*|\\b\\d+ [+-] ${atom}(?: [+-] (?:${atom}|\\d+\\b))*`,
    "g",
  );
  return code.replace(sum, (expression) => {
    const parts = expression.split(/ ([+-]) /);
    const values = parts.map((part, i) => (i % 2 === 1 || /^\d+$/.test(part) ? part : value(part, wire)));
    if (values.length === 1) return values[0];
    let total = Number(values[0]);
    for (let i = 1; i < values.length; i += 2) total += (values[i] === "-" ? -1 : 1) * Number(values[i + 1]);
    if (!Number.isInteger(total)) throw new Error(`${expression} is no sum of numbers`);
    return String(total);
  });
}

/** Throws where the code relies on a place that a column does not have. */
export function checkNeeds(script, code, wire) {
  for (const [, path, wanted] of code.matchAll(/^--- @needs (\S+) = (\d+)$/gm)) {
    const is = value(path, wire);
    if (is !== wanted) throw new Error(`${script}: it needs ${path} to be ${wanted}, but it is ${is}`);
  }
}

/** What RECORD.till.from and the like stand for. */
function value(path, wire) {
  const [name, member, property] = path.split(".");
  const thing = wire[name];
  if (thing.columns === undefined) return constant(path, thing[member], property);
  if (property === undefined && ["width", "whole", "zero"].includes(member)) {
    const { to } = place(name, thing, thing.columns.length - 1, path);
    if (member === "zero")
      return quote(thing.columns.map(({ before, width }, i) => lead(before, i) + zeros(width)).join(""));
    return member === "width" ? String(to) : `1, ${to}`;
  }
  const [first, last] = range(name, thing, member);
  const { width } = thing.columns[first];
  if (first === last && width !== undefined) {
    if (property === "width") return String(width);
    if (property === "zero") return quote(zeros(width));
    if (property === "format") return quote(`%0${width}.0f`);
  }
  const { from } = place(name, thing, first, path);
  if (property === "from") return String(from);
  const { to } = place(name, thing, last, path);
  if (to === undefined) throw new Error(`${path}: it has no fixed width`);
  if (property === undefined) return `${from}, ${to}`;
  if (property === "to") return String(to);
  throw new Error(`${path} means nothing`);
}

function constant(path, constant, property) {
  if (typeof constant === "number") return property === "text" ? quote(String(constant)) : String(constant);
  if (typeof constant !== "string") throw new Error(`${path} is not in wire.ts`);
  if (property === "length") return String(constant.length);
  if (property === "byte") return String(constant.charCodeAt(0));
  return quote(constant);
}

const zeros = (width) => "0".repeat(width);
const quote = (string) => `'${string}'`;
/** Nothing separates the first column from anything. */
const lead = (before, index) => (index === 0 ? before.trim() : before);

function range(name, { columns, parts }, member) {
  const at = columns.findIndex((column) => column.name === member);
  const found = parts[member] ?? [at, at];
  if (found[0] < 0) throw new Error(`${name}.${member} is not in wire.ts`);
  return found;
}

/** Where a column begins and ends, counted from 1. */
function place(name, { columns }, index, path) {
  let from = 1;
  for (let i = 0; i < index; i++) {
    from += lead(columns[i].before, i).length + (columns[i].width ?? Number.NaN);
  }
  from += lead(columns[index].before, index).length;
  if (Number.isNaN(from)) throw new Error(`${path}: what stands before it in ${name} has no fixed width`);
  const { width } = columns[index];
  return { from, to: width === undefined ? undefined : from + width - 1 };
}

const ASSIGNED = /((?:\w+\s*,\s*)*\w+)(\s*=\s*(?:string\.)?match\((?:[^()']|'[^']*')*)$/;

function pattern(name, layout, kind, given, before, wire) {
  const { columns, parts } = layout;
  const assigned = ASSIGNED.exec(before);
  const asked = assigned === null ? [] : assigned[1].split(",").map((one) => one.trim());
  const renamed = new Map();
  const looks = new Map();
  for (const [column, text] of given) {
    range(name, layout, column);
    if (/^[a-z_]+$/.test(text)) renamed.set(column, text);
    else looks.set(column, /^'(.*)'$/.exec(text)?.[1] ?? constantOf(text, wire));
  }
  const variable = (column) => {
    const own = renamed.get(column) ?? column;
    return asked.includes(own) ? own : undefined;
  };
  const captured = [];
  let source = "^";
  const concerns = (i) =>
    looks.has(columns[i].name) || variable(columns[i].name) !== undefined || asked.includes(`${columns[i].name}_at`);
  const whole = Object.entries(parts).filter(([part]) => variable(part) !== undefined);
  const lastOf = Math.max(...columns.map((_, i) => (concerns(i) ? i : -1)));
  const end = Math.max(lastOf, ...whole.map(([, [, last]]) => last));
  let open = 0;
  for (let i = 0; i <= end; i++) {
    const column = columns[i];
    source += escape(lead(column.before, i));
    const starting = whole.filter(([, [first]]) => first === i);
    for (const [part] of starting) {
      captured.push(variable(part));
      source += "(";
      open++;
    }
    // Inside of a part that is captured as a whole, and goes on to the end: nothing else is looked at.
    if (i > lastOf && open > 0 && end === columns.length - 1) {
      source += `.*${")".repeat(open)}`;
      open = 0;
      break;
    }
    if (asked.includes(`${column.name}_at`)) {
      captured.push(`${column.name}_at`);
      source += "()";
    }
    const look = looks.get(column.name) ?? (kind === "exact" ? column.exact : column.lua);
    if (variable(column.name) === undefined) source += look;
    else {
      captured.push(variable(column.name));
      source += `(${look})`;
    }
    for (const [, [, last]] of whole) {
      if (last !== i || open === 0) continue;
      source += ")";
      open--;
    }
  }
  if (kind !== "start") source += end === columns.length - 1 ? "$" : escape(columns[end + 1].before);
  const missing = asked.filter((one) => !captured.includes(one));
  if (assigned !== null && missing.length > 0) throw new Error(`${missing.join(", ")}: no column of ${name}`);
  if (assigned === null) return `${before}${quote(source)}`;
  return `${before.slice(0, assigned.index)}${captured.join(", ")}${assigned[2]}${quote(source)}`;
}

function constantOf(text, wire) {
  return value(text, wire).slice(1, -1);
}

const escape = (literal) => literal.replace(/[-+.?*^$%()[\]]/g, "%$&");

/** Texts are joined; from the first number to the last, one format says all. */
function text(name, layout, given, wire) {
  const { columns, parts } = layout;
  const values = new Map(given);
  for (const [column] of given) range(name, layout, column);
  const pieces = [];
  for (let i = 0; i < columns.length; i++) {
    pieces.push({ literal: lead(columns[i].before, i) });
    const part = Object.keys(parts).find((one) => parts[one][0] === i && values.has(one));
    const expression = values.get(part ?? columns[i].name);
    if (expression === undefined) throw new Error(`${name}.text: no ${columns[i].name}`);
    pieces.push(piece(expression, part === undefined ? columns[i].width : undefined, wire));
    if (part !== undefined) i = parts[part][1];
  }
  const merged = [];
  for (const one of pieces.filter(({ literal }) => literal !== "")) {
    if (one.literal !== undefined && merged.at(-1)?.literal !== undefined) {
      merged[merged.length - 1] = { literal: merged.at(-1).literal + one.literal };
    } else merged.push(one);
  }
  return joined(merged);
}

function piece(expression, width, wire) {
  const number = /^(digits|small)\((.*)\)$/s.exec(expression);
  if (number !== null) {
    const zeroes = width === undefined ? "" : `0${width}`;
    return { format: number[1] === "small" ? `%${zeroes}d` : `%${zeroes}.0f`, expression: number[2] };
  }
  const literal = /^'([^']*)'$/.exec(expression)?.[1];
  if (literal !== undefined) return { literal };
  if (/^[A-Z]+\.\w+$/.test(expression)) return { literal: constantOf(expression, wire) };
  return {
    format: "%s",
    expression: / (?:and|or) /.test(expression) && !/^\(.*\)$/.test(expression) ? `(${expression})` : expression,
  };
}

function joined(pieces) {
  const isNumber = ({ format }) => format !== undefined && format !== "%s";
  let first = pieces.findIndex(isNumber);
  if (first < 0) return pieces.map(({ literal, expression }) => expression ?? quote(literal)).join(" .. ");
  let last = pieces.findLastIndex(isNumber);
  if (pieces[first - 1]?.literal !== undefined) first--;
  if (pieces[last + 1]?.literal !== undefined) last++;
  const run = pieces.slice(first, last + 1);
  const format = run.map(({ literal, format: one }) => one ?? literal.replaceAll("%", "%%")).join("");
  const args = run.filter(({ expression }) => expression !== undefined).map(({ expression }) => expression);
  const formatted = { expression: `string.format(${quote(format)}, ${args.join(", ")})` };
  return joined([...pieces.slice(0, first), formatted, ...pieces.slice(last + 1)]);
}

function reply(name, list, given) {
  const values = new Map(given);
  for (const [member] of given) if (!list.includes(member)) throw new Error(`${name}.${member} is not in wire.ts`);
  const last = Math.max(...given.map(([member]) => list.indexOf(member)));
  return `{ ${list
    .slice(0, last + 1)
    .map((member) => values.get(member) ?? "false")
    .join(", ")} }`;
}

function replaced(name, layout, [subject, member, expression], wire) {
  const [first] = range(name, layout, member);
  const { from, to } = place(name, layout, first, `${name}.${member}`);
  const written = joined([piece(expression, layout.columns[first].width, wire)]);
  return `${from === 1 ? "" : `string.sub(${subject}, 1, ${from - 1}) .. `}${written} .. string.sub(${subject}, ${to + 1})`;
}

/** { name = value, … } */
function fields(inside) {
  return split(inside).map((field) => {
    const [, name, text] = /^(\w+)\s*=\s*(.+)$/s.exec(field) ?? [];
    if (name === undefined) throw new Error(`Expected name = value, got ${field}`);
    return [name, text.trim()];
  });
}

/** By the commas that are neither in brackets nor in texts. */
function split(inside) {
  const found = [];
  let [depth, from] = [0, 0];
  for (let i = 0; i <= inside.length; i++) {
    const char = inside[i] ?? ",";
    if (char === "'") i = inside.indexOf("'", i + 1);
    else if ("({[".includes(char)) depth++;
    else if (")}]".includes(char)) depth--;
    else if (char === "," && depth === 0) {
      const one = inside.slice(from, i).replaceAll(/\s+/g, " ").trim();
      if (one !== "") found.push(one);
      from = i + 1;
    }
  }
  return found;
}

function closing(code, open) {
  let depth = 0;
  for (let i = open; i < code.length; i++) {
    if (code[i] === "'") i = code.indexOf("'", i + 1);
    else if ("({[".includes(code[i])) depth++;
    else if (")}]".includes(code[i]) && --depth === 0) return i;
  }
  throw new Error("a bracket is not closed");
}
