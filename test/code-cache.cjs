/**
 * Starts a bundled program with its code as V8 has compiled it before: to compile it is most of what is left of a start. Copied beside
 * the bundle by test/bundle.ts. With HOLDFAST_TEST_COMPILED=write, a process leaves at its exit what it has compiled. As a program of
 * its own it compiles what no process has: not the functions, which V8 compiles when they are called, but where they are.
 */
"use strict";
const { existsSync, readdirSync, readFileSync, renameSync, writeFileSync } = require("node:fs");
const Module = require("node:module");
const path = require("node:path");
const { Script } = require("node:vm");

const writes = process.env["HOLDFAST_TEST_COMPILED"] === "write";
delete process.env["HOLDFAST_TEST_COMPILED"];
const compiled = new Map();
/** V8 does not keep with a script what its own import() needs. */
globalThis.importForTests = (id) => import(id);

/** Where what is beside does not fit this Node, V8 compiles as ever. */
function load(filename, content) {
  const beside = `${filename}.compiled`;
  const cachedData = existsSync(beside) ? readFileSync(beside) : undefined;
  const source = Module.wrap(content.replace(/^#!.*/, ""));
  const script = new Script(source, { filename, cachedData });
  if (cachedData === undefined) compiled.set(beside, script);
  return script;
}

/** As Node does it. */
Module.prototype._compile = function compile(content, filename) {
  const run = load(filename, content).runInThisContext();
  run.call(this.exports, this.exports, Module.createRequire(filename), this, filename, path.dirname(filename));
};

/** Another process may read them already: they come whole. */
function write() {
  for (const [file, script] of compiled) {
    writeFileSync(`${file}.${process.pid}`, script.createCachedData());
    renameSync(`${file}.${process.pid}`, file);
  }
}

if (require.main === module) {
  for (const name of readdirSync(__dirname).filter((one) => one.endsWith(".js") && one !== "code-cache.js")) {
    load(path.join(__dirname, name), readFileSync(path.join(__dirname, name), "utf8"));
  }
  write();
} else if (writes) {
  process.on("exit", write);
}
