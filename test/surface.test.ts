/** The public names, under version control: a change here is a change for users. */
import { expect, test } from "vitest";
import * as holdfast from "../src/index.ts";
import * as otel from "../src/telemetry/otel/index.ts";

test("holdfast exports these names and no others", () => {
  expect(Object.keys(holdfast).toSorted()).toEqual([
    "LockBackendError",
    "LockClosedError",
    "LockDeadlockError",
    "LockError",
    "LockLostError",
    "LockOutcomeError",
    "LockTimeoutError",
    "closeOnSignals",
    "connect",
    "createLocks",
    "openBackend",
    "subscribe",
  ]);
});

test("holdfast/otel exports these names and no others", () => {
  expect(Object.keys(otel).toSorted()).toEqual(["instrument", "metricProducer"]);
});

test("errors have stable codes, facts as fields, and say what to do next", () => {
  const timeout = new holdfast.LockTimeoutError("invoice:42", 2000, []);
  expect(timeout).toMatchObject({
    name: "LockTimeoutError",
    code: "ERR_LOCK_TIMEOUT",
    lock: "invoice:42",
    waitedMs: 2000,
  });
  const lost = new holdfast.LockLostError("invoice:42", 7n, "evicted");
  expect(lost).toMatchObject({ name: "LockLostError", code: "ERR_LOCK_LOST", fence: 7n, reason: "evicted" });
  expect(lost.message).toMatch(/invoice:42.*fence 7.*evicted.*Stop the work/);
  const backend = new holdfast.LockBackendError("redis", "a", "down", { cause: new Error("x"), fatal: true });
  expect(backend).toMatchObject({
    name: "LockBackendError",
    code: "ERR_LOCK_BACKEND",
    backend: "redis",
    fatal: true,
    votes: [],
  });
  expect(backend.cause).toBeInstanceOf(Error);
  expect(new holdfast.LockClosedError("a")).toMatchObject({ code: "ERR_LOCK_CLOSED" });
  const outcome = new holdfast.LockOutcomeError("invoice:42", 7n, "its value was not kept: it is a function");
  expect(outcome).toMatchObject({ name: "LockOutcomeError", code: "ERR_LOCK_OUTCOME", lock: "invoice:42", fence: 7n });
  for (const error of [timeout, lost, backend, outcome]) {
    expect(error).toBeInstanceOf(holdfast.LockError);
    // Printed with the error; the message stays short.
    expect(Object.keys(error)).toContain("help");
    expect(error.message).not.toContain(error.help);
  }
});
