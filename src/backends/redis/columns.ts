/** Texts that are made of columns: how they are declared, written and read. What they are in Redis is in wire.ts. */

/** One column of a text. */
export interface Column<Name extends string = string> {
  readonly name: Name;
  /** What separates it from the column before it. */
  readonly before: string;
  /** Always so many characters; absent: as many as it needs. */
  readonly width?: number | undefined;
  /** Its format: as a regular expression, as a fast Lua pattern, and as one that also checks the width. */
  readonly js: string;
  readonly lua: string;
  readonly exact: string;
}

/** Columns in their order. `parts`: several that are also known together, by the index of the first and the last. */
export interface Layout<Name extends string = string> {
  readonly columns: readonly Column<Name>[];
  readonly parts: Readonly<Record<string, readonly [first: number, last: number]>>;
}

/** Exactly so many digits, with zeros before them: compared as texts they are in the order of their values. */
export function digits<const Name extends string>(name: Name, width: number): Column<Name> {
  return { name, before: " ", width, js: String.raw`\d{${width}}`, lua: "%d+", exact: "%d".repeat(width) };
}

/** A number without zeros before it. */
export function number<const Name extends string>(name: Name, most = 16): Column<Name> {
  return { name, before: " ", js: String.raw`\d{1,${most}}`, lua: "%d+", exact: "%d+" };
}

export function letter<const Name extends string>(name: Name, letters: Readonly<Record<string, string>>): Column<Name> {
  const set = `[${Object.values(letters).join("")}]`;
  return { name, before: " ", width: 1, js: set, lua: ".", exact: set };
}

/** No spaces. */
export function word<const Name extends string>(name: Name, js: string = String.raw`\S+`): Column<Name> {
  return { name, before: " ", js, lua: "%S+", exact: "%S+" };
}

/** All that is left. */
export function rest<const Name extends string>(name: Name): Column<Name> {
  return { name, before: " ", js: ".*", lua: ".*", exact: ".*" };
}

export function after<Name extends string>(before: string, column: Column<Name>): Column<Name> {
  return { ...column, before };
}

type Piece<Name extends string> = Column<Name> | { readonly [part: string]: Layout<Name> };

export function layout<const Name extends string>(...pieces: readonly Piece<Name>[]): Layout<Name> {
  const columns: Column<Name>[] = [];
  const parts: Record<string, readonly [number, number]> = {};
  for (const piece of pieces) {
    if ("js" in piece) {
      columns.push(piece as Column<Name>);
      continue;
    }
    for (const [part, inner] of Object.entries(piece)) {
      const start = columns.length;
      parts[part] = [start, start + inner.columns.length - 1];
      for (const [name, [first, last]] of Object.entries(inner.parts)) parts[name] = [start + first, start + last];
      columns.push(...inner.columns);
    }
  }
  return { columns, parts };
}

/** Where each of the names is in a list. */
export function placesIn<const Name extends string>(names: readonly Name[]): Readonly<Record<Name, number>> {
  return Object.fromEntries(names.map((name, at) => [name, at])) as Record<Name, number>;
}

/** Writes a text. */
export function write<Name extends string>(
  { columns }: Layout<Name>,
  values: Readonly<Record<Name, string | number>>,
): string {
  return columns
    .map(
      ({ name, before, width = 0 }, at) =>
        (at === 0 ? before.trim() : before) + String(values[name]).padStart(width, "0"),
    )
    .join("");
}

/** A text's pattern, with a group for each of the names; `at`: which group. */
export function reader<const Name extends string>(
  { columns, parts }: Layout,
  ...names: readonly Name[]
): { readonly pattern: RegExp; readonly at: Readonly<Record<Name, number>> } {
  const at: Partial<Record<string, number>> = {};
  const wanted: ReadonlySet<string> = new Set(names);
  let count = 0;
  let source = "";
  for (const [index, { name, before, js }] of columns.entries()) {
    source += (index === 0 ? before.trim() : before).replace(/[.+?]/u, String.raw`\$&`);
    for (const [part, [first]] of Object.entries(parts)) {
      if (first !== index || !wanted.has(part)) continue;
      at[part] = ++count;
      source += "(";
    }
    if (wanted.has(name)) at[name] = ++count;
    source += wanted.has(name) ? `(${js})` : js;
    for (const [part, [, last]] of Object.entries(parts)) if (last === index && wanted.has(part)) source += ")";
  }
  const unknown = names.find((name) => at[name] === undefined);
  if (unknown !== undefined) throw new Error(`no column is called ${unknown}`);
  return { pattern: new RegExp(`^${source}$`, "su"), at: at as Readonly<Record<Name, number>> };
}
