// Every mutant of a TypeScript file: one small change each that still parses, and that a test should notice.
import { parseSync } from "rolldown/utils";

const COMPARISONS = { "<": "<=", "<=": "<", ">": ">=", ">=": ">", "===": "!==", "!==": "===" };
const ARITHMETIC = { "+": "-", "-": "+", "*": "/", "/": "*" };
const ASSIGNMENTS = { "+=": "-=", "-=": "+=" };
const METHODS = { min: "max", max: "min", some: "every", every: "some", shift: "pop", push: "unshift" };
/** Types have no effect, and imports no variants; but what stands inside of these is code. */
const TRANSPARENT = new Set(["TSAsExpression", "TSNonNullExpression", "TSSatisfiesExpression"]);

/** @returns {{ start: number, end: number, put: string, how: string }[]} in the order of the text */
export function typescriptMutants(path, text) {
  const { program, errors } = parseSync(path, text, { lang: "ts" });
  if (errors.length > 0) throw new Error(`${path} does not parse: ${errors[0].message}`);
  const found = [];
  const put = (node, replacement, how) => found.push({ start: node.start, end: node.end, put: replacement, how });
  const of = (node) => text.slice(node.start, node.end);

  /** Replaces only the operator between two operands. */
  const operator = (node, replacement, how) => {
    const between = text.slice(node.left.end, node.right.start);
    const at = node.left.end + between.indexOf(node.operator);
    found.push({ start: at, end: at + node.operator.length, put: replacement, how });
  };

  const mutate = {
    IfStatement: ({ test }) => both(test),
    ConditionalExpression: ({ test }) => both(test),
    WhileStatement: ({ test }) => test.value !== true && put(test, "false", "never"),
    LogicalExpression: (node) => {
      put(node, of(node.left), "left side only");
      put(node, node.operator === "??" ? `(${of(node.right)})` : of(node.right), "right side only");
    },
    BinaryExpression: (node) => {
      if (COMPARISONS[node.operator]) operator(node, COMPARISONS[node.operator], "comparison");
      else if (ARITHMETIC[node.operator] && !isText(node.left) && !isText(node.right)) {
        operator(node, ARITHMETIC[node.operator], "arithmetic");
      }
    },
    AssignmentExpression: (node) => {
      if (ASSIGNMENTS[node.operator] && !isText(node.right)) operator(node, ASSIGNMENTS[node.operator], "arithmetic");
      if (node.operator === "??=") operator(node, "=", "assigned always");
    },
    UpdateExpression: (node) =>
      put(
        node,
        of(node).replace(/\+\+|--/, (sign) => (sign === "++" ? "--" : "++")),
        "step",
      ),
    UnaryExpression: (node) => node.operator === "!" && put(node, of(node.argument), "negation dropped"),
    ExpressionStatement: (node) => {
      if (node.directive || node.expression.callee?.type === "Super") return;
      put(node, ";", "statement dropped");
      if (node.expression.type === "AwaitExpression") put(node.expression, of(node.expression.argument), "not awaited");
    },
    ThrowStatement: (node) => put(node, ";", "throw dropped"),
    ReturnStatement: (node) => {
      if (node.argument && !isTrivial(node.argument)) put(node.argument, "undefined", "nothing returned");
    },
    Literal: (node) => {
      if (typeof node.value === "boolean") put(node, String(!node.value), "boolean");
      else if (typeof node.value === "number") put(node, otherNumber(node.value), "constant");
    },
    MemberExpression: ({ property, computed }) => {
      if (!computed && Object.hasOwn(METHODS, property.name)) put(property, METHODS[property.name], "method");
    },
  };

  function both(test) {
    put(test, "true", "always");
    put(test, "false", "never");
  }

  function walk(node, parent) {
    if (node.type.startsWith("TS") && !TRANSPARENT.has(node.type)) return;
    if (node.type === "ImportDeclaration" || node.type === "ExportAllDeclaration") return;
    // What an error says is read by people.
    if (node.type === "NewExpression" && (node.callee.name ?? "").endsWith("Error")) return;
    // A constant table of names needs no test of its own; `x[0]` and `-1` are other mutants' business.
    const skip =
      node.type === "Literal" &&
      (parent?.type === "MemberExpression" || (parent?.type === "Property" && parent.key === node));
    if (!skip) mutate[node.type]?.(node);
    for (const key in node) {
      const value = node[key];
      if (Array.isArray(value)) for (const each of value) if (each?.type) walk(each, node);
      if (value?.type && typeof value.start === "number") walk(value, node);
    }
  }
  walk(program);
  return found.filter((each) => parses(path, apply(text, each))).toSorted((a, b) => a.start - b.start || a.end - b.end);
}

export function apply(text, { start, end, put }) {
  return text.slice(0, start) + put + text.slice(end);
}

function parses(path, text) {
  return parseSync(path, text, { lang: "ts" }).errors.length === 0;
}

function isText(node) {
  return (
    node.type === "TemplateLiteral" ||
    (node.type === "Literal" && typeof node.value === "string") ||
    (node.type === "BinaryExpression" && (isText(node.left) || isText(node.right)))
  );
}

/** Would not differ, or is another mutant already. */
function isTrivial(node) {
  return (
    (node.type === "Identifier" && node.name === "undefined") ||
    typeof node.value === "boolean" ||
    (node.type === "AwaitExpression" && isTrivial(node.argument))
  );
}

function otherNumber(value) {
  if (value === 0) return "1";
  if (value === 1) return "0";
  return String(value * 3);
}
