/**
 * The rules of the Web Locks standard, each as a program that runs on any LockManager: ours over any store, or that of a runtime. They need no
 * test runner, so that `npm run judges -- web-locks` runs the same ones on Node's own.
 */
import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import type {
  WebLock,
  WebLockManager,
  WebLockOptions,
  WebLockSnapshot,
} from "../../../../src/drop-ins/web-locks/api.ts";

export interface Rule {
  readonly rule: string;
  /** `name`: no other rule uses it. Others may be made from it. */
  readonly run: (locks: WebLockManager, name: string) => Promise<void>;
  /** Why a store that many processes share does not keep it. */
  readonly declined?: string;
}

/** As code without types may call it. */
export function untyped(locks: WebLockManager, ...given: readonly unknown[]): Promise<unknown> {
  const { request } = locks as unknown as { readonly request: (...args: unknown[]) => Promise<unknown> };
  return Reflect.apply(request, locks, given) as Promise<unknown>;
}

export function unreached(): never {
  throw new Error("the callback was called");
}

/** The error's name, whatever its kind. */
export async function rejectsWith(name: string, promise: Promise<unknown>): Promise<void> {
  await assert.rejects(promise, (error: unknown) => {
    assert.equal((error as Error).name, name);
    if (name !== "TypeError") assert.ok(error instanceof DOMException, "it is a DOMException");
    return true;
  });
}

/** Exactly this value, also where it is no error. */
export async function rejectsExactly(reason: unknown, promise: Promise<unknown>): Promise<void> {
  const [outcome] = await Promise.allSettled([promise]);
  assert.deepEqual([outcome.status, outcome.status === "rejected" && outcome.reason === reason], ["rejected", true]);
}

export interface Held {
  readonly lock: WebLock;
  /** Ends the callback. The request settles then. */
  readonly release: (value?: unknown) => void;
  readonly reject: (reason: unknown) => void;
  /** What request() returned. */
  readonly request: Promise<unknown>;
}

/** Resolves when the callback has its lock, and holds it until it is released. */
export async function hold(locks: WebLockManager, name: string, options: WebLockOptions = {}): Promise<Held> {
  let [release, reject]: [(value?: unknown) => void, (reason: unknown) => void] = [() => {}, () => {}];
  const until = new Promise((resolve, fail) => ([release, reject] = [resolve, fail]));
  let request: Promise<unknown> | undefined;
  const lock = await new Promise<WebLock>((resolve, fail) => {
    request = locks.request(name, options, (granted) => {
      resolve(granted as WebLock);
      return until;
    });
    request.catch(fail);
  });
  return { lock, release, reject, request: request as Promise<unknown> };
}

export function modes(list: WebLockSnapshot["held"], name: string): readonly string[] {
  return list.filter((one) => one.name === name).map(({ mode }) => mode);
}

/** Whether the request has settled, or does so soon. */
export async function isSettled(promise: Promise<unknown>): Promise<boolean> {
  const settled = promise.then(
    () => true,
    () => true,
  );
  return await Promise.race([settled, pause(30).then(() => false)]);
}
