/** Nest applications for tests. Their classes are decorated by hand, as the compiler does it: Node 20 and our own settings know no decorators. */
import "reflect-metadata";
import {
  type DynamicModule,
  type INestApplication,
  Injectable,
  Module,
  type ModuleMetadata,
  type Type,
} from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { LocksModule } from "../../src/adapters/nestjs/index.ts";
import { memory } from "../../src/backends/memory/index.ts";
import type { Locks } from "../../src/core/api.ts";
import { createLocks } from "../../src/core/locks.ts";

type Decorator = (target: never, property: never, descriptor: never) => unknown;

/** As if they were written above the method, in this order. */
export function decorate(of: Type, property: string, ...decorators: readonly unknown[]): void {
  const descriptor = Object.getOwnPropertyDescriptor(of.prototype, property);
  for (const one of decorators.toReversed())
    (one as Decorator)(of.prototype as never, property as never, descriptor as never);
  Object.defineProperty(of.prototype, property, descriptor as PropertyDescriptor);
}

/** As if it were written before a parameter; `undefined`: of the constructor. */
export function decorateParameter(of: Type, property: string | undefined, index: number, decorator: unknown): void {
  const apply = decorator as (target: object, property: string | undefined, index: number) => void;
  apply(property === undefined ? of : (of.prototype as object), property, index);
}

export function moduleWith(metadata: ModuleMetadata): Type {
  const made = class {};
  Module(metadata)(made);
  return made;
}

export function injectable(...classes: readonly Type[]): readonly Type[] {
  for (const one of classes) Injectable()(one);
  return classes;
}

const QUIET = { logger: false, abortOnError: false } as const;
const closers: (() => Promise<unknown>)[] = [];

/** Starts an application on a free port of this machine. */
export async function start(
  metadata: ModuleMetadata,
): Promise<{ readonly app: INestApplication; readonly url: string }> {
  const app = await NestFactory.create(moduleWith(metadata), QUIET);
  closers.push(() => app.close());
  await app.listen(0, "127.0.0.1");
  return { app, url: await app.getUrl() };
}

/** One without a server. */
export async function context(
  metadata: ModuleMetadata,
): Promise<Awaited<ReturnType<typeof NestFactory.createApplicationContext>>> {
  const app = await NestFactory.createApplicationContext(moduleWith(metadata), QUIET);
  closers.push(() => app.close());
  return app;
}

/** Locks in memory, and the module that has them. */
export function inMemory(name?: string): { readonly locks: Locks; readonly module: DynamicModule } {
  const locks = createLocks(memory());
  return { locks, module: LocksModule.forRoot({ locks, ...(name === undefined ? {} : { name }) }) };
}

export async function closeAll(): Promise<void> {
  for (const close of closers.splice(0).toReversed()) await close();
}
