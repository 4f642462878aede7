/**
 * Which versions of the frameworks are supported. The peers have the range `*`, so that an app with another major version can still install the
 * core: the version is checked when the adapter is loaded.
 */
import { ArgumentError } from "../contract/argument-error.ts";
import { installedVersion, whyUnsupported } from "../contract/peer-version.ts";

/** The oldest of each supported major version. Express: what came before has holes of its own. Hono: what came before loses a body that was read. */
export const FRAMEWORKS: Readonly<
  Record<
    "express" | "fastify" | "hono" | "node-cron" | "croner" | "@nestjs/schedule" | "bullmq" | "@nestjs/core",
    readonly string[]
  >
> = {
  express: ["4.22.0", "5.0.0"],
  fastify: ["5.0.0"],
  hono: ["4.3.0"],
  "node-cron": ["4.6.0"],
  croner: ["11.0.0"],
  "@nestjs/schedule": ["5.0.0", "6.0.0", "12.0.0"],
  bullmq: ["6.0.0"],
  "@nestjs/core": ["10.0.0", "11.0.0", "12.0.0"],
};

/** `from`: the adapter's `import.meta.url`. One that is not found, as in a bundle, is not judged. */
export function assertSupported(framework: keyof typeof FRAMEWORKS, from: string): void {
  const why = whyUnsupported(framework, installedVersion(framework, from), FRAMEWORKS[framework]);
  if (why !== undefined) throw new ArgumentError(why);
}
