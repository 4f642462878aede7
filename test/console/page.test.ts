/** The page as it is shipped: what its sources say, small, and without anything from elsewhere. */
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { PAGE, SCRIPT, STYLE } from "../../src/console/generated/page.ts";
import { ROOT } from "../dist.ts";

const BYTES_MAX = 60_000;

test("the generated module is what its sources say", () => {
  execFileSync(process.execPath, [join(ROOT, "scripts/build-console.mjs"), "--check"], { stdio: "pipe" });
});

test(`page, script and style are at most ${BYTES_MAX} bytes, compressed`, () => {
  const sizes = [PAGE, SCRIPT, STYLE].map((text) => gzipSync(text).length);
  const sum = sizes.reduce((all, size) => all + size, 0);
  console.log(`page ${sizes[0]}, script ${sizes[1]}, style ${sizes[2]}: ${sum} bytes compressed`);
  expect(sum).toBeLessThan(BYTES_MAX);
  for (const text of [PAGE, SCRIPT, STYLE]) expect(text.length).toBeGreaterThan(100);
});

test("nothing is asked of another host, and no text becomes markup or code", () => {
  for (const text of [PAGE, SCRIPT, STYLE]) {
    // The name of SVG is an address that is never asked for.
    expect(text.replaceAll("http://www.w3.org/2000/svg", "")).not.toMatch(/https?:\/\/|@import|url\((?!#)/);
  }
  expect(SCRIPT).not.toMatch(/innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc/);
  expect(PAGE).not.toMatch(/<script(?![^>]*src=)|\son\w+=|style="/);
});
