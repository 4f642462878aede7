/** The built package: what runs in processes of its own runs as users get it. test/global-setup.ts has built it. */
import { join, resolve } from "node:path";

export const ROOT: string = resolve(import.meta.dirname, "..");
export const DIST: string = join(ROOT, "dist");
/** The same code as the compiler wrote it, module by module: for tests of what no subpath leads to. */
export const BUILD: string = join(ROOT, "build");
/** The same in fewer files, for what is started often: the command line and the file backend. See test/bundle.ts. */
export const BUNDLE: string = process.env["HOLDFAST_TEST_BUNDLE"] ?? BUILD;
