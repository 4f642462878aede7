/** The module: opens the locks of a store when the application starts, and closes them when it ends. */
import {
  type DynamicModule,
  type FactoryProvider,
  Module,
  type ModuleMetadata,
  type Provider,
  type Type,
} from "@nestjs/common";
import { ModulesContainer } from "@nestjs/core";
import { ArgumentError } from "../../contract/argument-error.ts";
import { checkObject } from "../../core/options.ts";
import { LocksHealthIndicator } from "./health.ts";
import { getLocksToken } from "./injection.ts";
import { type LocksModuleOptions, Stores } from "./stores.ts";

interface StoreIdentity {
  /** For applications with several stores: `@InjectLocks(name)`, `@Lock(key, { store: name })`. @default "default" */
  readonly name?: string | undefined;
  /** Every module can use it without importing it. @default true */
  readonly isGlobal?: boolean | undefined;
}

export type LocksRootOptions = LocksModuleOptions & StoreIdentity;

/** For `useClass` and `useExisting`. */
export interface LocksOptionsFactory {
  createLocksOptions(): LocksModuleOptions | Promise<LocksModuleOptions>;
}

/** One of `useFactory`, `useClass` and `useExisting`. */
export interface LocksAsyncOptions extends StoreIdentity, Pick<ModuleMetadata, "imports"> {
  readonly useFactory?: FactoryProvider<LocksModuleOptions | Promise<LocksModuleOptions>>["useFactory"] | undefined;
  readonly inject?: FactoryProvider["inject"] | undefined;
  readonly useClass?: Type<LocksOptionsFactory> | undefined;
  readonly useExisting?: Type<LocksOptionsFactory> | undefined;
}

let calls = 0;

export class LocksModule {
  static forRoot(options: LocksRootOptions = {}): DynamicModule {
    const { name, isGlobal, ...rest } = checkObject(options);
    return moduleOf({ name, isGlobal }, (provide) => [{ provide, useFactory: () => rest }]);
  }

  static forRootAsync(options: LocksAsyncOptions): DynamicModule {
    const { name, isGlobal, imports = [], useFactory, inject = [], useClass, useExisting } = checkObject(options);
    const ways = [useFactory, useClass, useExisting].filter((way) => way !== undefined);
    if (ways.length !== 1) {
      throw new ArgumentError(
        "Expected one of `useFactory`, `useClass` and `useExisting` for LocksModule.forRootAsync()",
      );
    }
    const factory = useClass ?? useExisting;
    const make = (made: LocksOptionsFactory): unknown => made.createLocksOptions();
    const module = moduleOf({ name, isGlobal }, (provide) => [
      factory === undefined
        ? { provide, useFactory: closing(useFactory!), inject: [ModulesContainer, ...inject] }
        : { provide, useFactory: closing(make), inject: [ModulesContainer, factory] },
      ...(useClass === undefined ? [] : [useClass]),
    ]);
    return { ...module, imports };
  }
}

Module({})(LocksModule);

/** As it is; and where it fails, the stores of the application that are open are closed. */
function closing<A extends unknown[]>(make: (...args: A) => unknown): (container: object, ...args: A) => unknown {
  return (container, ...args) => Stores.of(container).starting(() => make(...args));
}

function moduleOf(
  { name = "default", isGlobal = true }: StoreIdentity,
  optionsBy: (token: string) => readonly Provider[],
): DynamicModule {
  const token = getLocksToken(name);
  // Its own for each call: else Nest 10 takes two modules that differ only in what their factories know for one.
  const options = `${token} options ${(calls += 1)}`;
  const providers: Provider[] = [
    ...optionsBy(options),
    {
      provide: token,
      inject: [options, ModulesContainer],
      useFactory: (given: LocksModuleOptions, container: object) => {
        const stores = Stores.of(container);
        return stores.starting(() => stores.open(name, given));
      },
    },
    {
      provide: LocksHealthIndicator,
      inject: [ModulesContainer],
      useFactory: (container: object) => new LocksHealthIndicator(Stores.of(container)),
    },
    {
      provide: `${token} shutdown`,
      inject: [ModulesContainer],
      // When all requests are answered: they have their locks until then.
      useFactory: (container: object) => ({ onApplicationShutdown: () => Stores.of(container).close() }),
    },
  ];
  return { module: LocksModule, global: isGlobal, providers, exports: [token, LocksHealthIndicator] };
}
