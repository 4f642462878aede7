// For campaigns: replaces Node's AsyncLocalStorage by one that follows promises and microtasks, and nothing else. Until Node 24 the
// real one turns on hooks that make each promise many times dearer, and a simulated world is made of promises. The worlds are the
// same: a test compares them. To be imported before anything that imports node:async_hooks.
import asyncHooks from "node:async_hooks";
import { syncBuiltinESMExports } from "node:module";
import { promiseHooks } from "node:v8";

/** What runs now: the same Map for all that was started from it. Never changed, only replaced. */
let current;
const kContext = Symbol("context");
const before = [];

class LightStorage {
  getStore() {
    return current?.get(this);
  }

  run(store, fn, ...args) {
    const outer = current;
    current = new Map(outer).set(this, store);
    try {
      return fn(...args);
    } finally {
      current = outer;
    }
  }

  exit(fn, ...args) {
    return this.run(undefined, fn, ...args);
  }
}

// Since Node 22 it cannot be replaced; the real one is used there, and costs what it costs.
if (Object.getOwnPropertyDescriptor(asyncHooks, "AsyncLocalStorage")?.writable === true) {
  promiseHooks.createHook({
    init: (promise) => {
      if (current !== undefined) promise[kContext] = current;
    },
    before: (promise) => {
      before.push(current);
      current = promise[kContext];
    },
    after: () => {
      current = before.pop();
    },
  });
  const { queueMicrotask } = globalThis;
  globalThis.queueMicrotask = (fn) => {
    const context = current;
    queueMicrotask(() => {
      const outer = current;
      current = context;
      try {
        fn();
      } finally {
        current = outer;
      }
    });
  };
  asyncHooks.AsyncLocalStorage = LightStorage;
  syncBuiltinESMExports();
}
