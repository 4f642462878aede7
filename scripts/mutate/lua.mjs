// Every mutant of a Lua script: like those of TypeScript, but by tokens.
const TOKEN =
  /--\[\[[\s\S]*?\]\]|--[^\n]*|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|\d+(?:\.\d+)?|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*|==|~=|<=|>=|\.\.|\s+|[\s\S]/g;
const OTHER = {
  "==": "~=",
  "~=": "==",
  "<": "<=",
  "<=": "<",
  ">": ">=",
  ">=": ">",
  "+": "-",
  "-": "+",
  "*": "/",
  and: "or",
  or: "and",
  true: "false",
  false: "true",
  "math.max": "math.min",
  "math.min": "math.max",
};

/** A statement on a line of its own. */
const STATEMENT = /^(?:redis\.call\(|[\w.[\], ']+ = |return\b|[a-z_]+\().*$/;

/** @returns {{ start: number, end: number, put: string, how: string }[]} in the order of the text */
export function luaMutants(text) {
  const found = [];
  const put = (start, end, replacement, how) => found.push({ start, end, put: replacement, how });
  let before = "";
  for (const match of text.matchAll(TOKEN)) {
    const [token] = match;
    const start = match.index;
    const end = start + token.length;
    if (token.startsWith("--") || /^\s/.test(token)) continue;
    if (Object.hasOwn(OTHER, token)) put(start, end, OTHER[token], "operator");
    else if (token === "not") put(start, end, "", "negation dropped");
    else if (/^\d/.test(token))
      put(start, end, token === "0" ? "1" : String(Number(token) + 1), before === "[" ? "index" : "constant");
    before = token;
  }
  let at = 0;
  for (const line of text.split("\n")) {
    const code = line.trim();
    const start = at + line.indexOf(code);
    const condition = /^(?:if|elseif) (.+) then\b/.exec(code);
    if (condition) {
      const from = start + code.indexOf(condition[1]);
      put(from, from + condition[1].length, "true", "always");
      put(from, from + condition[1].length, "false", "never");
    }
    if (STATEMENT.test(code) && !code.startsWith("local ") && isWhole(code))
      put(start, start + code.length, code.startsWith("return") ? "do return end" : "", "statement dropped");
    at += line.length + 1;
  }
  return found.toSorted((a, b) => a.start - b.start || a.end - b.end);
}

/** No bracket, function or block goes on in the next line. */
function isWhole(code) {
  const open = (code.match(/[({[]/g) ?? []).length - (code.match(/[)}\]]/g) ?? []).length;
  return (
    open === 0 && !/(?:\bthen|\bdo|\band|\bor|\bfunction\b.*|[,+=]|\.\.)$/.test(code) && !/\bfunction\b/.test(code)
  );
}
